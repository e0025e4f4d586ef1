// Package gitops tests the charts and the files in clusters/, which teams sync. It uses the real source-controller and kustomize-controller
// of Flux, the real controllers of Argo CD, and the real cert-manager. `make e2e-gitops` builds these programs and runs the tests.
package gitops

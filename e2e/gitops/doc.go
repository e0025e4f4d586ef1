// Package gitops tests what teams sync: the charts and the files in clusters/, by the real source- and kustomize-controllers of Flux, the real
// cert-manager and the code by which Argo CD decides. `make e2e-gitops` builds those and runs it.
package gitops

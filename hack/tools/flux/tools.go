//go:build tools

// Package tools pins the controllers of Flux that sync in the GitOps tests: those whose programs are Go modules that can be
// built from a module proxy. The helm-controller is not among them; its API is, and with it its CRD.
package tools

import (
	_ "github.com/fluxcd/helm-controller/api/v2"
	_ "github.com/fluxcd/kustomize-controller"
	_ "github.com/fluxcd/source-controller/api/v1"
)

//go:build tools

// Package tools pins the controller of Flux that applies, and a program of ours that looks at health by Flux's own code. The
// helm-controller cannot be built: no module proxy serves all that it needs.
package tools

import (
	_ "github.com/breakwater-k8s/breakwater/hack/tools/flux/flux-look"
	_ "github.com/fluxcd/kustomize-controller"
)

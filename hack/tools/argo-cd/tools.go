//go:build tools

// Package tools pins Argo CD. Its programs cannot be built from a module proxy, which has no version of its engine that fits
// them; what decides on health, actions and differences can: the program in the folder beside runs that.
package tools

import (
	_ "github.com/breakwater-k8s/breakwater/hack/tools/argo-cd/argo-look"
)

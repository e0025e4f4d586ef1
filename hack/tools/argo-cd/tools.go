//go:build tools

// Package tools pins Argo CD. Its programs cannot be built from a module proxy, which has no version of its engine that fits
// them. What decides on health, actions and differences, and the engine that syncs, can: the programs in the folders beside run them.
package tools

import (
	_ "github.com/breakwater-k8s/breakwater/hack/tools/argo-cd/argo-look"
	_ "github.com/breakwater-k8s/breakwater/hack/tools/argo-cd/argo-sync"
)

//go:build tools

// Package tools pins cert-manager, whose own programs no module proxy serves: the one in the folder beside runs its controllers.
package tools

import (
	_ "github.com/breakwater-k8s/breakwater/hack/tools/cert-manager/cert-manager"
)

//go:build tools

package tools

// The APIs, from which controller-gen makes the definitions as Flux itself does. They are no programs, so hack/tools/install
// must not find them in tools.go.
import (
	_ "github.com/fluxcd/helm-controller/api/v2"
	_ "github.com/fluxcd/kustomize-controller/api/v1"
	_ "github.com/fluxcd/source-controller/api/v1"
)

//go:build tools

// Package tools pins the validator of plugin manifests that krew's own index runs.
package tools

import _ "sigs.k8s.io/krew/cmd/validate-krew-manifest"

//go:build tools

// Package tools pins helm, by which the charts are tested as users install them.
package tools

import _ "helm.sh/helm/v4/cmd/helm"

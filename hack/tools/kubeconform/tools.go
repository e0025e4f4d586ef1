//go:build tools

// Package tools pins kubeconform, which checks what the charts render against schemas.
package tools

import _ "github.com/yannh/kubeconform/cmd/kubeconform"

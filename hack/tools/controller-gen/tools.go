//go:build tools

// Package tools pins controller-gen, which writes CRDs and deep copies from api/.
package tools

import _ "sigs.k8s.io/controller-tools/cmd/controller-gen"

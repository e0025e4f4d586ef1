//go:build tools

// Package tools pins kwok, which plays nodes and the lives of pods in the local federation.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"

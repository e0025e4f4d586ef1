//go:build tools

// Package tools pins golangci-lint, which holds the style and the import rules of the tree.
package tools

import _ "github.com/golangci/golangci-lint/v2/cmd/golangci-lint"

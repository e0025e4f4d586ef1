//go:build tools

// Package tools pins helm-docs, which writes the READMEs of the charts from their values.
package tools

import _ "github.com/norwoodj/helm-docs/cmd/helm-docs"

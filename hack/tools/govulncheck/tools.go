//go:build tools

// Package tools pins govulncheck, which finds known vulnerabilities in what the programs call.
package tools

import _ "golang.org/x/vuln/cmd/govulncheck"

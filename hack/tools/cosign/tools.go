//go:build tools

// Package tools pins the program that signs images, charts and checksums of a release.
package tools

import _ "github.com/sigstore/cosign/v3/cmd/cosign"

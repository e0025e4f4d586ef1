//go:build tools

// Package tools pins OpenTofu, which runs the Terraform provider in tests, too.
package tools

import _ "github.com/opentofu/opentofu/cmd/tofu"

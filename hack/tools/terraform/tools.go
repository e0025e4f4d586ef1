//go:build tools

// Package tools pins Terraform, which runs the provider in tests. Nine of its backends are modules of their own, and no module
// proxy serves them at a version that fits: those in backends/ stand in for them.
package tools

import _ "github.com/hashicorp/terraform"

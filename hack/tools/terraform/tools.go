//go:build tools

// Package tools pins Terraform, which runs the provider in tests. Nine of its backends are separate modules, which no module proxy
// serves at a version that fits. The modules in backends/ replace them.
package tools

import _ "github.com/hashicorp/terraform"

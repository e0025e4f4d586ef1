//go:build tools

// Package tools pins the oldest OpenTofu that the provider supports. Tests run the provider with it as well as with the newest.
package tools

import _ "github.com/opentofu/opentofu/cmd/tofu"

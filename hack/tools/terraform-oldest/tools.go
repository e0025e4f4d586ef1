//go:build tools

// Package tools pins the oldest Terraform that the provider supports. Tests run the provider with it as well as with the newest.
package tools

import _ "github.com/hashicorp/terraform"

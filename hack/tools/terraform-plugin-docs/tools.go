//go:build tools

// Package tools pins tfplugindocs, which writes the documentation of the Terraform provider from its schema.
package tools

import _ "github.com/hashicorp/terraform-plugin-docs/cmd/tfplugindocs"

//go:build tools

// Package tools pins the provider gavinbunney/kubectl, from whose resources the tests move objects to the provider of Breakwater.
package tools

import _ "github.com/gavinbunney/terraform-provider-kubectl"

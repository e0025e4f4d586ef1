// Package azure stands in for Terraform's azurerm backend.
package azure

import (
	"github.com/breakwater-k8s/breakwater/hack/tools/terraform/missing"
	"github.com/hashicorp/terraform/internal/backend"
)

// New ends the program.
var New = missing.New[backend.Backend]("azurerm")

// Package cos stands in for Terraform's cos backend.
package cos

import (
	"github.com/breakwater-k8s/breakwater/hack/tools/terraform/missing"
	"github.com/hashicorp/terraform/internal/backend"
)

// New ends the program.
var New = missing.New[backend.Backend]("cos")

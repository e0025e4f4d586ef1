// Package s3 stands in for Terraform's s3 backend.
package s3

import (
	"github.com/breakwater-k8s/breakwater/hack/tools/terraform/missing"
	"github.com/hashicorp/terraform/internal/backend"
)

// New ends the program.
var New = missing.New[backend.Backend]("s3")

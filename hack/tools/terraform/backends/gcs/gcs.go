// Package gcs stands in for Terraform's gcs backend.
package gcs

import (
	"github.com/breakwater-k8s/breakwater/hack/tools/terraform/missing"
	"github.com/hashicorp/terraform/internal/backend"
)

// New ends the program.
var New = missing.New[backend.Backend]("gcs")

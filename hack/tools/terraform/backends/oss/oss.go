// Package oss stands in for Terraform's oss backend.
package oss

import (
	"github.com/breakwater-k8s/breakwater/hack/tools/terraform/missing"
	"github.com/hashicorp/terraform/internal/backend"
)

// New ends the program.
var New = missing.New[backend.Backend]("oss")

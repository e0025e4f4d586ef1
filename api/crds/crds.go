// Package crds holds the CustomResourceDefinitions of the API, as controller-gen writes them.
package crds

import "embed"

// FS holds one YAML file for each kind.
//
//go:embed *.yaml
var FS embed.FS

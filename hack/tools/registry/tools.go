//go:build tools

// Package tools pins the registry of OCI artifacts to which the tests of make release push. Its own program has the drivers of all clouds, which
// take minutes to build; the one in the folder beside stores in a folder.
package tools

import _ "github.com/breakwater-k8s/breakwater/hack/tools/registry/registry"

// Package clusters holds the topologies of local federations, one folder each, so that a program can start one
// from any working folder.
package clusters

import "embed"

// FS holds NAME/topology.yaml for each topology.
//
//go:embed */topology.yaml
var FS embed.FS

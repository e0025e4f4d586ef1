package federation

import "slices"

// Role is the purpose of a cluster.
type Role string

const (
	// Core clusters hold PodProtectors and source workloads.
	Core Role = "core"
	// Worker clusters run pods.
	Worker Role = "worker"
)

// MaxNodes is the maximum number of nodes of one cluster, because one process on this machine simulates them all.
const MaxNodes = 1000

// Topology describes the clusters of a federation. LoadTopology and Embedded return validated ones.
type Topology struct {
	Name     string
	Clusters []ClusterSpec
}

// ClusterSpec is one cluster of a topology.
type ClusterSpec struct {
	// Name is a DNS-1123 label, unique in the topology.
	Name string
	// Roles holds one or both roles, each once.
	Roles []Role
	// Nodes is how many nodes run pods: 1 to MaxNodes for a worker, 0 for every other cluster.
	Nodes int
}

// HasRole reports whether the cluster has the role.
func (c ClusterSpec) HasRole(role Role) bool { return slices.Contains(c.Roles, role) }

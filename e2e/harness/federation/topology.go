package federation

import "slices"

// Role says what a cluster is for.
type Role string

const (
	// Core clusters hold PodProtectors and source workloads.
	Core Role = "core"
	// Worker clusters run pods.
	Worker Role = "worker"
)

// MaxNodes bounds the nodes of one cluster: all are played by one process on this machine.
const MaxNodes = 1000

// Topology says which clusters a federation has. LoadTopology and Embedded give validated ones.
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

// Is tells whether the cluster has the role.
func (c ClusterSpec) Is(role Role) bool { return slices.Contains(c.Roles, role) }

package federation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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
	Name     string        `json:"name"`
	Clusters []ClusterSpec `json:"clusters"`
}

// ClusterSpec is one cluster of a topology.
type ClusterSpec struct {
	// Name is a DNS-1123 label, unique in the topology.
	Name string `json:"name"`
	// Roles holds one or both roles, each once.
	Roles []Role `json:"roles"`
	// Nodes is how many nodes run pods: 1 to MaxNodes for a worker, 0 for every other cluster.
	Nodes int `json:"nodes"`
}

// HasRole reports whether the cluster has the role.
func (c ClusterSpec) HasRole(role Role) bool { return slices.Contains(c.Roles, role) }

func (t *Topology) validate() (all field.ErrorList) {
	all = append(all, validateName(field.NewPath("name"), t.Name)...)
	clusters, seen := field.NewPath("clusters"), map[string]bool{}
	for i, c := range t.Clusters {
		at := clusters.Index(i)
		all = append(all, validateName(at.Child("name"), c.Name)...)
		if seen[c.Name] {
			all = append(all, field.Duplicate(at.Child("name"), c.Name))
		}
		seen[c.Name] = true
		all = append(all, c.validateRoles(at)...)
	}
	for _, role := range []Role{Core, Worker} {
		if !slices.ContainsFunc(t.Clusters, func(c ClusterSpec) bool { return c.HasRole(role) }) {
			all = append(all, field.Required(clusters, fmt.Sprintf("no cluster has the role %s: want at least one", role)))
		}
	}
	return all
}

func validateName(at *field.Path, name string) (all field.ErrorList) {
	if faults := validation.IsDNS1123Label(name); len(faults) > 0 {
		all = append(all, field.Invalid(at, name, strings.Join(faults, "; ")))
	}
	return all
}

func (c ClusterSpec) validateRoles(at *field.Path) (all field.ErrorList) {
	for i, role := range c.Roles {
		if role != Core && role != Worker {
			all = append(all, field.NotSupported(at.Child("roles").Index(i), role, []Role{Core, Worker}))
		} else if slices.Contains(c.Roles[:i], role) {
			all = append(all, field.Duplicate(at.Child("roles").Index(i), role))
		}
	}
	switch {
	case len(c.Roles) == 0:
		all = append(all, field.Required(at.Child("roles"), fmt.Sprintf("want %s, %s or both", Core, Worker)))
	case c.HasRole(Worker) && (c.Nodes < 1 || c.Nodes > MaxNodes):
		all = append(all, field.Invalid(at.Child("nodes"), c.Nodes, fmt.Sprintf("a worker needs 1 to %d nodes to run pods on", MaxNodes)))
	case !c.HasRole(Worker) && c.Nodes != 0:
		all = append(all, field.Forbidden(at.Child("nodes"), "only a cluster with the role worker has nodes"))
	}
	return all
}

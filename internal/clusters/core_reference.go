package clusters

import (
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"
)

// CoreReferences is the name of the ConfigMap in the namespace of Breakwater in a worker that says where its core clusters are. It has a key for each
// core, with a CoreReference in YAML. A Role and a RoleBinding of that name let all authenticated users read it: like the ConfigMap cluster-info of
// kubeadm, it names clusters and has no credentials.
const CoreReferences = "breakwater-core"

// CoreReference says where a core cluster is.
type CoreReference struct {
	// Servers are the URLs of its API server: that of the administrator who joined the worker, and that of the worker's components if it differs.
	Servers []string `json:"servers"`
	// Cluster is the UID of its namespace kube-system.
	Cluster string `json:"cluster"`
	// Context is the name of the context in the kubeconfig of that administrator, which other users may have as well. It may be empty.
	Context string `json:"context,omitempty"`
}

// NamedCoreReference is a CoreReference with the name of the core in the worker.
type NamedCoreReference struct {
	Name string
	CoreReference
}

// Data returns the value of the reference in the ConfigMap.
func (r CoreReference) Data() (string, error) {
	raw, err := yaml.Marshal(r)
	return string(raw), err
}

// ParseCoreReferences parses the data of the ConfigMap, in the order of names.
func ParseCoreReferences(data map[string]string) (all []NamedCoreReference, err error) {
	for _, name := range slices.Sorted(maps.Keys(data)) {
		one := NamedCoreReference{Name: name}
		if err := yaml.Unmarshal([]byte(data[name]), &one.CoreReference); err != nil {
			return nil, fmt.Errorf("core %q in ConfigMap %s: %w", name, CoreReferences, err)
		}
		all = append(all, one)
	}
	return all, nil
}

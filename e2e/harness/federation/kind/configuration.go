package kind

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// readPatch reads fields that all clusters get. Nodes are not among them: the topology says which there are.
func readPatch(file string) (v1alpha4.Cluster, error) {
	var patch v1alpha4.Cluster
	if file == "" {
		return patch, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return patch, fmt.Errorf("read the patch of kind configurations: %w", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&patch); err != nil && !errors.Is(err, io.EOF) {
		return patch, fmt.Errorf("read the patch of kind configurations %s: %w", file, err)
	}
	if len(patch.Nodes) > 0 || patch.Name != "" {
		return patch, fmt.Errorf("the patch of kind configurations %s has names or nodes: the topology says which there are", file)
	}
	return patch, nil
}

// configuration is that of one cluster. One node is control plane and runs pods as well, as kind does it; of several, the
// control plane runs none.
func configuration(patch v1alpha4.Cluster, spec federation.ClusterSpec, nodes int) *v1alpha4.Cluster {
	if nodes == 0 {
		nodes = spec.Nodes
	}
	if !spec.Is(federation.Worker) {
		nodes = 1
	}
	wanted := patch
	wanted.Nodes = []v1alpha4.Node{{Role: v1alpha4.ControlPlaneRole}}
	if nodes > 1 {
		for range nodes {
			wanted.Nodes = append(wanted.Nodes, v1alpha4.Node{Role: v1alpha4.WorkerRole})
		}
	}
	return &wanted
}

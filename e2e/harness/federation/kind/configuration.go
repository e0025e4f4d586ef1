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

// readPatch reads fields for all clusters. They cannot contain nodes, which the topology defines.
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
		return patch, fmt.Errorf("the patch of kind configurations %s sets name or nodes; set them in the topology", file)
	}
	return patch, nil
}

// configuration returns the kind configuration of one cluster. A single node runs the control plane and pods, as is kind's
// default. With several nodes, the control plane node runs no pods.
func configuration(patch v1alpha4.Cluster, spec federation.ClusterSpec, nodes int) *v1alpha4.Cluster {
	if nodes == 0 {
		nodes = spec.Nodes
	}
	if !spec.HasRole(federation.Worker) {
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

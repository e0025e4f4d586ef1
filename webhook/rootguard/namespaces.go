package rootguard

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// namespaceAnnotations reads the annotations of a namespace, in the cluster of the deletion. They are not cached, so
// that a user who has just confirmed is not refused.
func (h *Handler) namespaceAnnotations(ctx context.Context, at rootguard.ClusterIdentity, name string) (map[string]string, error) {
	if at.Core != "" {
		namespace := clusters.EmptyNamespace()
		err := h.cores[at.Core].reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
		return namespace.Annotations, err
	}
	cluster, err := h.protection.CellMetadata(at.Cells[0])
	if err != nil {
		return nil, err
	}
	namespace, err := cluster.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return namespace.Annotations, nil
}

package simulation

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// clusterState is one cluster: its store, and the requests that its API server carries out.
type clusterState struct {
	name      string
	env       *environment
	processes *processes
	store     *apiserver.Store
	// countedVersion is its version when all protectors had been counted for the first time.
	countedVersion uint64
	// judged is the cluster as the judge reads it.
	judged *clusterView
	// restoredAt is when it was last restored. No cache of its API servers is older.
	restoredAt time.Time
}

func (c *clusterState) create(resource string, object client.Object) {
	if _, err := c.store.Create(resource, object, ""); err != nil {
		panic(fmt.Sprintf("simulation: create %s: %v", object.GetName(), err))
	}
}

// pods returns the pods of a cell that are not terminating, by name.
func (c *clusterState) pods() []*corev1.Pod {
	objects, _ := c.store.List("pods", "")
	var existing []*corev1.Pod
	for _, o := range objects {
		if p, ok := o.(*corev1.Pod); ok && p.DeletionTimestamp == nil {
			existing = append(existing, p)
		}
	}
	return existing
}

func (c *clusterState) protectors() []*v1alpha1.PodProtector { return c.judged.protectors() }

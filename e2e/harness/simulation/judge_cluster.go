package simulation

import (
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// clusterView is one cluster as the judge reads it.
type clusterView struct {
	name  string
	store *apiserver.Store
	// restoredVersion is the version at which it continued after its last restore; 0 if it was never restored.
	restoredVersion uint64
}

func (c *clusterView) protectors() []*v1alpha1.PodProtector {
	objects, _ := c.store.List("podprotectors", "")
	var all []*v1alpha1.PodProtector
	for _, o := range objects {
		if p, ok := o.(*v1alpha1.PodProtector); ok {
			all = append(all, p)
		}
	}
	return all
}

// replica is one run of a process of ours, which the judge tells from later runs by its pointer.
type replica struct {
	name      string
	startedAt time.Time
}

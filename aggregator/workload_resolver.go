package aggregator

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/confirm"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// maxProblemBytes is the maximum length of a problem in a status, in bytes.
const maxProblemBytes = 512

// workloadResolver finds the workloads of protectors: the one that a protector names, and those that own its pods. It is safe for
// concurrent use.
type workloadResolver struct {
	workloads *workloads
	index     *workloadIndex
	queue     workqueue.TypedRateLimitingInterface[types.NamespacedName]
	now       func() time.Time
	log       logr.Logger
}

// newWorkloads returns the workloads of the cell, which are watched until ctx ends. onChange is called with each that changes.
func (a *Aggregator) newWorkloads(ctx context.Context, onChange func(workloadName)) *workloads {
	return &workloads{
		metadata: a.metadataClient, dynamic: a.dynamicClient, mapper: a.mapper, onChange: onChange,
		startInformer: func(informer toolscache.SharedIndexInformer) { go informer.RunWithContext(ctx) },
		kinds:         map[schema.GroupVersionResource]toolscache.SharedIndexInformer{}, sizes: map[types.UID]size{},
		listCounts: map[schema.GroupVersionResource]int{},
	}
}

// workloadChanged enqueues the protectors that depend on a workload.
func (r *workloadResolver) workloadChanged(workload workloadName) {
	for _, protector := range r.index.protectorsOf(workload) {
		r.queue.Add(protector)
	}
}

// expect sets how many pods are expected in this cell, if the floor depends on that (rule 13). A value that cannot be determined now stays as it
// was; expect then returns false if a retry is worthwhile.
func (r *workloadResolver) expect(
	ctx context.Context, p *v1alpha1.PodProtector, stored, now *v1alpha1.Aggregation, owners map[owner]int32,
) bool {
	key := keyOf(p)
	now.SelectedSpec = quota.SelectedSpec(&p.Spec)
	switch {
	case !quota.NeedsExpected(&p.Spec):
		r.index.setResults(key, nil)
		return true
	case p.Spec.TargetRef != nil:
		r.index.setResults(key, nil)
		now.ExpectedReplicas = replicasOf(now.Target)
		return true
	}
	known, before := stored.Workloads, stored.ExpectedReplicas
	if stored.SelectedSpec != now.SelectedSpec {
		known = nil
		if stored.SelectedSpec != "" { // it is empty when an older version wrote it
			before = nil
		}
	}
	last, seen := r.index.resultsOf(key), map[owner]found{}
	expected, err := expect(owners, known, before, r.releaseOf(p), func(o owner) (found, error) {
		top, err := r.workloads.findTop(ctx, key.Namespace, o, last[o])
		if before, known := last[o]; err != nil && known {
			seen[o] = before
		} else if err == nil {
			seen[o] = top
		}
		return top, err
	})
	r.index.setResults(key, seen)
	switch {
	case err == nil:
		now.ExpectedReplicas, now.Workloads = &expected.replicas, expected.workloads
	case errors.Is(err, errOwnerless):
		now.ExpectedReplicasProblem, now.Workloads = err.Error(), known
	default:
		r.log.Error(err, "Failed to determine the expected replicas", "protector", key)
		now.ExpectedReplicas, now.Workloads = before, known // an earlier selector's expectation does not apply to this one
		if now.ExpectedReplicas == nil {
			now.ExpectedReplicasProblem = clusters.Truncate(err.Error(), maxProblemBytes)
		}
	}
	return err == nil || errors.Is(err, errOwnerless)
}

// releaseOf returns the user's decision on the protector's workloads that no longer exist.
func (r *workloadResolver) releaseOf(p *v1alpha1.PodProtector) release {
	return release{byPolicy: p.Spec.TargetRemovalPolicy == v1alpha1.TargetRemovalRelease, confirmed: confirm.Confirmed(p.Annotations, r.now())}
}

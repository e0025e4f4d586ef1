package workloads

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/confirm"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// Resolver finds the workloads of protectors: the one that a protector names, and those that own its pods. It is safe for
// concurrent use.
type Resolver struct {
	workloads *workloads
	index     *workloadIndex
	queue     workqueue.TypedRateLimitingInterface[types.NamespacedName]
	now       func() time.Time
	log       logr.Logger
}

// NewResolver returns the resolver of a leadership. Its workloads are watched from watch on.
func NewResolver(queue workqueue.TypedRateLimitingInterface[types.NamespacedName], now func() time.Time, log logr.Logger) *Resolver {
	return &Resolver{index: newWorkloadIndex(), queue: queue, now: now, log: log}
}

// Watch sets the clients of the cell, whose workloads are watched until ctx ends.
func (r *Resolver) Watch(ctx context.Context, metadata metadata.Interface, dynamic dynamic.Interface, mapper meta.RESTMapper) {
	r.workloads = newWorkloads(ctx, metadata, dynamic, mapper, r.workloadChanged)
}

// workloadChanged enqueues the protectors that depend on a workload.
func (r *Resolver) workloadChanged(workload workloadName) {
	for _, protector := range r.index.protectorsOf(workload) {
		r.queue.Add(protector)
	}
}

// Expect sets how many pods are expected in this cell, if the floor depends on that (rules 13, 16). A value that cannot be determined now stays as
// it was; expect then returns false if a retry is worthwhile.
func (r *Resolver) Expect(ctx context.Context, p *v1alpha1.PodProtector, stored, now *v1alpha1.Aggregation, pods *snapshot.Count) bool {
	key := client.ObjectKeyFromObject(p)
	now.SelectedSpec = quota.SelectedSpec(&p.Spec)
	if !quota.NeedsExpected(&p.Spec) {
		r.index.setResults(key, nil)
		return true
	}
	e := r.newExpecting(p, stored, pods)
	defer func() { r.index.setResults(key, e.seen) }()
	owners := pods.Owners
	if p.Spec.TargetRef != nil {
		below, own, err := e.ownersBelow(ctx, targetOwner(p).GroupKind(), now.Target)
		if err == nil && len(below)+len(e.known) == 0 {
			now.ExpectedReplicas = replicasOf(now.Target)
			return true
		}
		if owners = below; err != nil {
			return e.keep(err, stored, now)
		}
		if own > 0 { // a target without pods of its own may count in another unit, such as groups
			owners[ownerOf(p, now.Target)] = own
		}
	}
	if e.isFormer {
		e.dropSuperseded(ctx, owners)
	}
	expected, err := expect(owners, e.known, e.before, r.releaseOf(p), func(o snapshot.Owner) (searchResult, error) {
		if now.Target != nil && o.UID == now.Target.UID {
			return searchResult{workload: o, replicas: now.Target.Replicas, deleted: now.Target.Gone}, nil
		}
		return e.search(ctx, o)
	})
	if err != nil {
		return e.keep(err, stored, now)
	}
	r.index.setExpectation(key, stored, expected)
	now.ExpectedReplicas, now.Workloads = &expected.replicas, expected.workloads
	if expected.replicas == 0 && p.Spec.TargetRef != nil {
		now.ExpectedReplicas = replicasOf(now.Target) // only workloads of earlier pods are known, and they request none
	}
	return true
}

// releaseOf returns the user's decision on the protector's workloads that no longer exist.
func (r *Resolver) releaseOf(p *v1alpha1.PodProtector) release {
	return release{byPolicy: p.Spec.TargetRemovalPolicy == v1alpha1.TargetRemovalRelease, confirmed: confirm.Confirmed(p.Annotations, r.now())}
}

// Forget drops the results and the target of a protector.
func (r *Resolver) Forget(protector types.NamespacedName) { r.index.forget(protector) }

// AddKeysIn adds the protectors of some slots to keys.
func (r *Resolver) AddKeysIn(slots slot.Set, keys map[types.NamespacedName]bool) {
	r.index.addKeysIn(slots, keys)
}

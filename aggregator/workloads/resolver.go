package workloads

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/confirm"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/workload"
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
	expected, err := expect(owners, e.known, e.before, r.releaseOf(p), func(o snapshot.Owner) (found, error) {
		if now.Target != nil && o.UID == now.Target.UID {
			return found{workload: o, replicas: now.Target.Replicas, deleted: now.Target.Gone}, nil
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

// expecting determines how many pods of a protector are expected in a cell.
type expecting struct {
	resolver *Resolver
	key      types.NamespacedName
	pods     *snapshot.Count
	// known are the workloads that were expected before, of which the status has those in listed, and before is their sum; nil if there is none.
	known, listed []v1alpha1.ExpectedWorkload
	before        *int32
	// isFormer reports that an older version found them, by another rule.
	isFormer bool
	// last and seen are the results of the last searches and of these, by the owners of the pods.
	last, seen map[snapshot.Owner]found
	// hasUncounted reports that pods have an owner whose number was never known. What was expected before does not include it.
	hasUncounted bool
}

func (r *Resolver) newExpecting(p *v1alpha1.PodProtector, stored *v1alpha1.Aggregation, pods *snapshot.Count) *expecting {
	key := client.ObjectKeyFromObject(p)
	e := &expecting{
		resolver: r, key: key, pods: pods, known: r.index.workloadsOf(key, stored), listed: stored.Workloads, before: stored.ExpectedReplicas,
		isFormer: stored.SelectedSpec == quota.FormerSelectedSpec(&p.Spec), last: r.index.resultsOf(key), seen: map[snapshot.Owner]found{},
	}
	if !selectedBy(stored, p) {
		e.known, e.listed = nil, nil
		if stored.SelectedSpec != "" { // it is empty when an older version wrote it
			e.before = nil // an earlier selector's expectation does not apply to this one
		}
	}
	return e
}

// selectedBy reports whether what is stored of the workloads of a protector is of its selectors.
func selectedBy(stored *v1alpha1.Aggregation, p *v1alpha1.PodProtector) bool {
	return stored.SelectedSpec == quota.SelectedSpec(&p.Spec) || stored.SelectedSpec == quota.FormerSelectedSpec(&p.Spec)
}

// search finds the workload of an owner of pods.
func (e *expecting) search(ctx context.Context, o snapshot.Owner) (found, error) {
	s := e.searchFor(o)
	result, err := s.find(ctx, o)
	switch before := e.last[o]; {
	case err != nil && before.workload != snapshot.NoOwner():
		e.seen[o] = before
	case err != nil && isUnknown(err) && !s.isExpected(o.UID):
		e.hasUncounted = true
		fallthrough
	default:
		e.seen[o] = result
	}
	return result, err
}

func (e *expecting) searchFor(o snapshot.Owner) *workloadSearch {
	return &workloadSearch{
		workloads: e.resolver.workloads, namespace: e.key.Namespace, pods: e.pods.OwnerLabels[o], last: e.last[o],
		isExpected: func(uid types.UID) bool {
			return slices.ContainsFunc(e.known, func(w v1alpha1.ExpectedWorkload) bool { return w.UID == uid && uid != "" })
		},
	}
}

// ownersBelow returns the owners whose pods a workload between them and the target counts (rule 16), and the number of pods that the target itself
// counts. It selects all other pods. Below a workload that selects its own pods there is none.
func (e *expecting) ownersBelow(
	ctx context.Context, kind schema.GroupKind, target *v1alpha1.Target,
) (below map[snapshot.Owner]int32, own int32, err error) {
	below = map[snapshot.Owner]int32{}
	if target == nil || workload.SelectsOwnPods(kind) {
		e.known = nil
		return below, 0, nil
	}
	for _, o := range slices.SortedFunc(maps.Keys(e.pods.Owners), byUID) {
		if o == snapshot.NoOwner() {
			continue
		}
		if o.UID == target.UID {
			own += e.pods.Owners[o]
			continue
		}
		result, err := e.search(ctx, o)
		if err == nil && result.workload.UID == target.UID {
			own += e.pods.Owners[o]
			continue
		}
		switch isBelow, errAbove := e.searchFor(o).isBelow(ctx, o, target.UID); {
		case errAbove != nil:
			return nil, 0, errAbove
		case !isBelow, errors.Is(err, errUncounted): // no controller counts the pods instead of the target
		case err != nil:
			return nil, 0, err
		default:
			below[o] = e.pods.Owners[o]
		}
	}
	return below, own, nil
}

// ownerOf returns the target that a protector names as an owner of pods.
func ownerOf(p *v1alpha1.PodProtector, target *v1alpha1.Target) snapshot.Owner {
	owner := targetOwner(p)
	owner.UID = target.UID
	return owner
}

// dropSuperseded drops the workloads that an older version found above those that count (rule 16). Without pods of their own they would stay
// expected for ever.
func (e *expecting) dropSuperseded(ctx context.Context, owners map[snapshot.Owner]int32) {
	counting, above := map[types.UID]bool{}, map[types.UID]bool{}
	for _, o := range slices.SortedFunc(maps.Keys(owners), byUID) {
		if o == snapshot.NoOwner() {
			continue
		}
		result, err := e.search(ctx, o)
		if err != nil {
			return // expect fails for the same reason, and this is done with the first success
		}
		counting[result.workload.UID], above[result.above.UID] = true, true
	}
	e.known = slices.DeleteFunc(slices.Clone(e.known), func(w v1alpha1.ExpectedWorkload) bool {
		return above[w.UID] && !counting[w.UID] && w.UID != ""
	})
}

// keep keeps the expectation that was stored, and reports whether a retry is pointless.
func (e *expecting) keep(err error, stored, now *v1alpha1.Aggregation) (isFinal bool) {
	if now.Workloads = e.listed; errors.Is(err, errOwnerless) {
		now.ExpectedReplicasProblem = err.Error()
		return true
	}
	if e.isFormer {
		now.SelectedSpec = stored.SelectedSpec
	}
	if now.ExpectedReplicas = e.before; e.hasUncounted {
		now.ExpectedReplicas = nil // rule 9
	}
	if now.ExpectedReplicas == nil {
		now.ExpectedReplicasProblem = clusters.Truncate(err.Error(), snapshot.MaxProblemBytes)
	}
	if errors.Is(err, errUncounted) {
		return true
	}
	e.resolver.log.Error(err, "Failed to determine the expected replicas", "protector", e.key)
	return false
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

package workloads

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/workload"
)

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
	last, seen map[snapshot.Owner]searchResult
	// dividing are the workloads that divide their pods among sets; nil if nothing depends on them yet.
	dividing []searchResult
	// hasUncounted reports that pods have an owner whose number was never known. What was expected before does not include it.
	hasUncounted bool
}

func (r *Resolver) newExpecting(p *v1alpha1.PodProtector, stored *v1alpha1.Aggregation, pods *snapshot.Count) *expecting {
	key := client.ObjectKeyFromObject(p)
	e := &expecting{
		resolver: r, key: key, pods: pods, known: r.index.workloadsOf(key, stored), listed: stored.Workloads, before: stored.ExpectedReplicas,
		isFormer: stored.SelectedSpec == quota.FormerSelectedSpec(&p.Spec), last: r.index.resultsOf(key), seen: map[snapshot.Owner]searchResult{},
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
func (e *expecting) search(ctx context.Context, o snapshot.Owner) (searchResult, error) {
	s := e.searchFor(o)
	result, err := s.find(ctx, o)
	if isUnseenSet(o, result) && err == nil && !s.isExpected(o.UID) {
		result = e.attribute(ctx, s, result)
	}
	switch before := e.last[o]; {
	case err != nil && before.workload != snapshot.NoOwner():
		e.seen[o] = before
	case err != nil && !s.isExpected(o.UID) && (isUnknown(err) || s.isUnread && !e.asksKnown(s)): // rule 9
		e.hasUncounted = true
		fallthrough
	default:
		e.seen[o] = result
	}
	return result, err
}

// asksKnown reports whether a search has got to a workload that was expected before, as that of a new set of a Deployment. What was expected before
// includes its pods, also while its scale cannot be read.
func (e *expecting) asksKnown(s *workloadSearch) bool {
	return slices.ContainsFunc(e.known, func(w v1alpha1.ExpectedWorkload) bool {
		owner := snapshot.Owner{APIVersion: w.APIVersion, Kind: w.Kind, Name: w.Name}
		return !isSum(w) && slices.Contains(s.asked, s.workloads.nameOf(owner, s.namespace))
	})
}

// isUnseenSet reports whether a set was deleted before this leader saw what controlled it, so that only its pods are left.
func isUnseenSet(o snapshot.Owner, result searchResult) bool {
	return workload.IsReplaceable(o.GroupKind()) && result.deleted && !result.kindNotServed && result.workload == o && result.replicas == 0
}

// attribute returns the workload that exists, divides its pods among sets and selects those of a deleted set, which it has replaced: a Deployment
// without a revision history deletes the sets of old pods while these terminate. Without one it returns the result of the set.
func (e *expecting) attribute(ctx context.Context, set *workloadSearch, result searchResult) searchResult {
	if e.dividing == nil {
		e.dividing = e.findDividing(ctx)
	}
	if w, ok := selecting(e.dividing, labelsOf(set.pods)); ok && len(set.pods) > 0 {
		w.asked = append(slices.Clone(w.asked), result.asked...)
		return w
	}
	return result
}

// selecting returns the first of some workloads whose scale selects all pods.
func selecting(all []searchResult, pods iter.Seq[map[string]string]) (w searchResult, ok bool) {
	i := slices.IndexFunc(all, func(w searchResult) bool {
		selection, err := workload.SelectionOf(w.selector, pods)
		return err == nil && selection == workload.SelectsAll
	})
	if i < 0 {
		return searchResult{}, false
	}
	return all[i], true
}

// findDividing finds the workloads that divide their pods among sets.
func (e *expecting) findDividing(ctx context.Context) []searchResult {
	all := []searchResult{}
	owners := slices.Collect(maps.Keys(e.pods.Owners))
	for _, w := range e.known {
		owners = append(owners, snapshot.Owner{APIVersion: w.APIVersion, Kind: w.Kind, Name: w.Name, UID: w.UID})
	}
	slices.SortFunc(owners, byUID)
	for _, o := range owners {
		if o.UID == "" {
			continue
		}
		w, err := e.searchFor(o).find(ctx, o) // expect fails by the same error
		if kind := w.workload.GroupKind(); err == nil && !w.deleted && (workload.IsDeployment(kind) || workload.IsReplaceable(o.GroupKind()) && w.workload != o) {
			all = append(all, w)
		}
	}
	return all
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

package aggregator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/confirm"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// maxProblemBytes is the maximum length of a problem in a status, in bytes.
const maxProblemBytes = 512

// workloadIndex records the workloads that protectors depend on, and the last result found for them.
type workloadIndex struct {
	mu         sync.Mutex
	last       map[types.NamespacedName]map[owner]found
	protectors map[workloadName]map[types.NamespacedName]bool
	// targets are the workloads that protectors name, and named are the protectors that name them.
	targets    map[types.NamespacedName]workloadName
	targetedBy map[workloadName]map[types.NamespacedName]bool
}

func newWorkloadIndex() *workloadIndex {
	return &workloadIndex{
		last: map[types.NamespacedName]map[owner]found{}, protectors: map[workloadName]map[types.NamespacedName]bool{},
		targets: map[types.NamespacedName]workloadName{}, targetedBy: map[workloadName]map[types.NamespacedName]bool{},
	}
}

// resultsOf returns the last results for the owners of a protector's pods.
func (w *workloadIndex) resultsOf(protector types.NamespacedName) map[owner]found {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.last[protector])
}

// setResults replaces the results of a protector; nil removes them.
func (w *workloadIndex) setResults(protector types.NamespacedName, now map[owner]found) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, found := range w.last[protector] {
		name := found.workload.nameIn(protector.Namespace)
		if delete(w.protectors[name], protector); len(w.protectors[name]) == 0 {
			delete(w.protectors, name)
		}
	}
	delete(w.last, protector)
	if len(now) == 0 {
		return
	}
	w.last[protector] = now
	for _, found := range now {
		name := found.workload.nameIn(protector.Namespace)
		if w.protectors[name] == nil {
			w.protectors[name] = map[types.NamespacedName]bool{}
		}
		w.protectors[name][protector] = true
	}
}

// setTarget records the workload that a protector names; nil removes it.
func (w *workloadIndex) setTarget(protector types.NamespacedName, target *workloadName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, had := w.targets[protector]; had {
		delete(w.targets, protector)
		if delete(w.targetedBy[old], protector); len(w.targetedBy[old]) == 0 {
			delete(w.targetedBy, old)
		}
	}
	if target == nil {
		return
	}
	w.targets[protector] = *target
	if w.targetedBy[*target] == nil {
		w.targetedBy[*target] = map[types.NamespacedName]bool{}
	}
	w.targetedBy[*target][protector] = true
}

// addKeysIn adds the protectors of some slots to keys.
func (w *workloadIndex) addKeysIn(slots slot.Set, keys map[types.NamespacedName]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	addKeysIn(slots, w.last, keys)
	addKeysIn(slots, w.targets, keys)
}

// protectorsOf returns the protectors that depend on a workload: they name it, or it owns or owned their pods.
func (w *workloadIndex) protectorsOf(workload workloadName) []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Collect(maps.Keys(w.targetedBy[workload]))
	for protector := range w.protectors[workload] {
		if !w.targetedBy[workload][protector] {
			all = append(all, protector)
		}
	}
	// Sorted, so that the simulation can repeat a run.
	slices.SortFunc(all, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// initWorkloads sets up the leadership to look up workloads, and to enqueue protectors when their workloads change.
func (l *leadership) initWorkloads(ctx context.Context) {
	l.workloadIndex = newWorkloadIndex()
	l.workloads = &workloads{
		metadata: l.metadataClient, dynamic: l.dynamicClient, mapper: l.mapper,
		startInformer: func(informer toolscache.SharedIndexInformer) { go informer.RunWithContext(ctx) },
		onChange: func(workload workloadName) {
			for _, protector := range l.workloadIndex.protectorsOf(workload) {
				l.queue.Add(protector)
			}
		},
		kinds: map[schema.GroupVersionResource]toolscache.SharedIndexInformer{}, sizes: map[types.UID]size{},
		listCounts: map[schema.GroupVersionResource]int{},
	}
}

// expect sets how many pods are expected in this cell, if the floor depends on that. A value that cannot be determined now stays as it
// was; expect then returns false if a retry is worthwhile.
func (l *leadership) expect(
	ctx context.Context, p *v1alpha1.PodProtector, stored, now *v1alpha1.Aggregation, owners map[owner]int32,
) bool {
	key := keyOf(p)
	now.SelectedSpec = quota.SelectedSpec(&p.Spec)
	switch {
	case !quota.NeedsExpected(&p.Spec):
		l.workloadIndex.setResults(key, nil)
		return true
	case p.Spec.TargetRef != nil:
		l.workloadIndex.setResults(key, nil)
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
	last, seen := l.workloadIndex.resultsOf(key), map[owner]found{}
	expected, err := expect(owners, known, before, l.releaseOf(p), func(o owner) (found, error) {
		top, err := l.workloads.findTop(ctx, key.Namespace, o, last[o])
		if before, known := last[o]; err != nil && known {
			seen[o] = before
		} else if err == nil {
			seen[o] = top
		}
		return top, err
	})
	l.workloadIndex.setResults(key, seen)
	switch {
	case err == nil:
		now.ExpectedReplicas, now.Workloads = &expected.replicas, expected.workloads
	case errors.Is(err, errOwnerless):
		now.ExpectedReplicasProblem, now.Workloads = err.Error(), known
	default:
		l.log.Error(err, "Failed to determine the expected replicas", "protector", key)
		now.ExpectedReplicas, now.Workloads = before, known // an earlier selector's expectation does not apply to this one
		if now.ExpectedReplicas == nil {
			now.ExpectedReplicasProblem = clusters.Truncate(err.Error(), maxProblemBytes)
		}
	}
	return err == nil || errors.Is(err, errOwnerless)
}

// releaseOf returns the user's decision on the protector's workloads that no longer exist.
func (l *leadership) releaseOf(p *v1alpha1.PodProtector) release {
	return release{byPolicy: p.Spec.TargetRemovalPolicy == v1alpha1.TargetRemovalRelease, confirmed: confirm.Confirmed(p.Annotations, l.now())}
}

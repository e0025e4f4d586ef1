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

// longestProblem is the maximum length of a problem in a status, in bytes.
const longestProblem = 512

// followed records the workloads that protectors depend on, and the last result found for them.
type followed struct {
	mu         sync.Mutex
	last       map[types.NamespacedName]map[owner]found
	protectors map[workloadName]map[types.NamespacedName]bool
	// targets are the workloads that protectors name, and named are the protectors that name them.
	targets map[types.NamespacedName]workloadName
	named   map[workloadName]map[types.NamespacedName]bool
}

func newFollowed() *followed {
	return &followed{
		last: map[types.NamespacedName]map[owner]found{}, protectors: map[workloadName]map[types.NamespacedName]bool{},
		targets: map[types.NamespacedName]workloadName{}, named: map[workloadName]map[types.NamespacedName]bool{},
	}
}

// of returns the last results for the owners of a protector's pods.
func (f *followed) of(protector types.NamespacedName) map[owner]found {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.last[protector])
}

// set replaces the results of a protector; nil removes them.
func (f *followed) set(protector types.NamespacedName, now map[owner]found) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, found := range f.last[protector] {
		name := found.workload.nameIn(protector.Namespace)
		if delete(f.protectors[name], protector); len(f.protectors[name]) == 0 {
			delete(f.protectors, name)
		}
	}
	delete(f.last, protector)
	if len(now) == 0 {
		return
	}
	f.last[protector] = now
	for _, found := range now {
		name := found.workload.nameIn(protector.Namespace)
		if f.protectors[name] == nil {
			f.protectors[name] = map[types.NamespacedName]bool{}
		}
		f.protectors[name][protector] = true
	}
}

// follow records the workload that a protector names; nil removes it.
func (f *followed) follow(protector types.NamespacedName, target *workloadName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old, had := f.targets[protector]; had {
		delete(f.targets, protector)
		if delete(f.named[old], protector); len(f.named[old]) == 0 {
			delete(f.named, old)
		}
	}
	if target == nil {
		return
	}
	f.targets[protector] = *target
	if f.named[*target] == nil {
		f.named[*target] = map[types.NamespacedName]bool{}
	}
	f.named[*target][protector] = true
}

// in adds the protectors of some slots to keys.
func (f *followed) in(slots slot.Set, keys map[types.NamespacedName]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	keysOf(slots, f.last, keys)
	keysOf(slots, f.targets, keys)
}

// by returns the protectors that depend on a workload: they name it, or it owns or owned their pods.
func (f *followed) by(workload workloadName) []types.NamespacedName {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.Collect(maps.Keys(f.named[workload]))
	for protector := range f.protectors[workload] {
		if !f.named[workload][protector] {
			all = append(all, protector)
		}
	}
	// Sorted, so that the simulation can repeat a run.
	slices.SortFunc(all, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// followWorkloads sets up the term to look up workloads, and to enqueue protectors when their workloads change.
func (t *term) followWorkloads(ctx context.Context) {
	t.followed = newFollowed()
	t.workloads = &workloads{
		metadata: t.podNames, dynamic: t.scales, mapper: t.kinds,
		run: func(informer toolscache.SharedIndexInformer) { go informer.RunWithContext(ctx) },
		changed: func(workload workloadName) {
			for _, protector := range t.followed.by(workload) {
				t.queue.Add(protector)
			}
		},
		kinds: map[schema.GroupVersionResource]toolscache.SharedIndexInformer{}, sizes: map[types.UID]size{},
		lists: map[schema.GroupVersionResource]int{},
	}
}

// expect sets how many pods are expected in this cell, if the floor depends on that. A value that cannot be determined now stays as it
// was; expect then returns false if a retry is worthwhile.
func (t *term) expect(
	ctx context.Context, p *v1alpha1.PodProtector, stored, now *v1alpha1.Aggregation, owners map[owner]int32,
) bool {
	key := keyOf(p)
	now.SelectedSpec = quota.SelectedSpec(&p.Spec)
	switch {
	case !quota.NeedsExpected(&p.Spec):
		t.followed.set(key, nil)
		return true
	case p.Spec.TargetRef != nil:
		t.followed.set(key, nil)
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
	last, seen := t.followed.of(key), map[owner]found{}
	expected, err := expect(owners, known, before, t.releaseOf(p), func(o owner) (found, error) {
		top, err := t.workloads.find(ctx, key.Namespace, o, last[o])
		if before, known := last[o]; err != nil && known {
			seen[o] = before
		} else if err == nil {
			seen[o] = top
		}
		return top, err
	})
	t.followed.set(key, seen)
	switch {
	case err == nil:
		now.ExpectedReplicas, now.Workloads = &expected.replicas, expected.workloads
	case errors.Is(err, errOwnerless):
		now.ExpectedReplicasProblem, now.Workloads = err.Error(), known
	default:
		t.log.Error(err, "It cannot be found out how many pods are expected", "protector", key)
		now.ExpectedReplicas, now.Workloads = before, known // an earlier selector's expectation does not apply to this one
		if now.ExpectedReplicas == nil {
			now.ExpectedReplicasProblem = clusters.Shorten(err.Error(), longestProblem)
		}
	}
	return err == nil || errors.Is(err, errOwnerless)
}

// releaseOf returns the user's decision on the protector's workloads that no longer exist.
func (t *term) releaseOf(p *v1alpha1.PodProtector) release {
	return release{byPolicy: p.Spec.TargetRemovalPolicy == v1alpha1.TargetRemovalRelease, confirmed: confirm.Confirmed(p.Annotations, t.now())}
}

package workloads

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// workloadIndex records the workloads that protectors depend on, and the last result found for them.
type workloadIndex struct {
	mu         sync.Mutex
	last       map[types.NamespacedName]map[snapshot.Owner]found
	protectors map[workloadName]map[types.NamespacedName]bool
	// targets are the workloads that protectors name, and named are the protectors that name them.
	targets    map[types.NamespacedName]workloadName
	targetedBy map[workloadName]map[types.NamespacedName]bool
}

func newWorkloadIndex() *workloadIndex {
	return &workloadIndex{
		last: map[types.NamespacedName]map[snapshot.Owner]found{}, protectors: map[workloadName]map[types.NamespacedName]bool{},
		targets: map[types.NamespacedName]workloadName{}, targetedBy: map[workloadName]map[types.NamespacedName]bool{},
	}
}

// resultsOf returns the last results for the owners of a protector's pods.
func (w *workloadIndex) resultsOf(protector types.NamespacedName) map[snapshot.Owner]found {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.last[protector])
}

// setResults replaces the results of a protector; nil removes them.
func (w *workloadIndex) setResults(protector types.NamespacedName, now map[snapshot.Owner]found) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, found := range w.last[protector] {
		for _, name := range found.asked {
			if delete(w.protectors[name], protector); len(w.protectors[name]) == 0 {
				delete(w.protectors, name)
			}
		}
	}
	delete(w.last, protector)
	if len(now) == 0 {
		return
	}
	w.last[protector] = now
	for _, found := range now {
		for _, name := range found.asked {
			if w.protectors[name] == nil {
				w.protectors[name] = map[types.NamespacedName]bool{}
			}
			w.protectors[name][protector] = true
		}
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

// forget removes the results and the target of a protector.
func (w *workloadIndex) forget(protector types.NamespacedName) {
	w.setResults(protector, nil)
	w.setTarget(protector, nil)
}

// addKeysIn adds the protectors of some slots to keys.
func (w *workloadIndex) addKeysIn(slots slot.Set, keys map[types.NamespacedName]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ownership.AddKeysIn(slots, w.last, keys)
	ownership.AddKeysIn(slots, w.targets, keys)
}

// protectorsOf returns the protectors that depend on a workload: they name it, or it is or was above their pods.
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

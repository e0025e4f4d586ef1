package workloads

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// workloadIndex records the workloads that protectors depend on, and the last result searchResult for them.
type workloadIndex struct {
	mu   sync.Mutex
	last map[types.NamespacedName]map[snapshot.Owner]searchResult
	// expectations are those of protectors whose status does not list all workloads: the one that was stored last, and the last one. They differ
	// when a write failed.
	expectations map[types.NamespacedName][]expectation
	// targets are the workloads that protectors name.
	targets map[types.NamespacedName]workloadName
	// dependents counts, for each workload, the results and the targets by which protectors depend on it.
	dependents map[workloadName]map[types.NamespacedName]int
}

func newWorkloadIndex() *workloadIndex {
	return &workloadIndex{
		last: map[types.NamespacedName]map[snapshot.Owner]searchResult{}, expectations: map[types.NamespacedName][]expectation{},
		targets: map[types.NamespacedName]workloadName{}, dependents: map[workloadName]map[types.NamespacedName]int{},
	}
}

// add adds to the number of dependencies of a protector on a workload.
func (w *workloadIndex) add(workload workloadName, protector types.NamespacedName, number int) {
	of := w.dependents[workload]
	if of == nil {
		of = map[types.NamespacedName]int{}
		w.dependents[workload] = of
	}
	if of[protector] += number; of[protector] == 0 {
		delete(of, protector)
	}
	if len(of) == 0 {
		delete(w.dependents, workload)
	}
}

// addAll adds to the numbers of dependencies of a protector on the objects on which its last results depend.
func (w *workloadIndex) addAll(protector types.NamespacedName, number int) {
	for _, result := range w.last[protector] {
		for _, name := range result.asked {
			w.add(name, protector, number)
		}
	}
}

// resultsOf returns the last results for the owners of a protector's pods.
func (w *workloadIndex) resultsOf(protector types.NamespacedName) map[snapshot.Owner]searchResult {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.last[protector])
}

// setResults replaces the results of a protector; nil removes them.
func (w *workloadIndex) setResults(protector types.NamespacedName, now map[snapshot.Owner]searchResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addAll(protector, -1)
	delete(w.last, protector)
	if len(now) > 0 {
		w.last[protector] = now
		w.addAll(protector, 1)
	}
}

// setExpectation records the expectation of a protector, whose status is stored.
func (w *workloadIndex) setExpectation(protector types.NamespacedName, stored *v1alpha1.Aggregation, now expectation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := slices.DeleteFunc(w.expectations[protector], func(e expectation) bool { return !e.isIn(stored) })
	if now.complete != nil && !now.isIn(stored) {
		kept = append(kept, now)
	}
	if w.expectations[protector] = kept; len(kept) == 0 {
		delete(w.expectations, protector)
	}
}

// workloadsOf returns the workloads of a protector whose status is stored: those that the status lists, and the other ones if this leadership
// determined it.
func (w *workloadIndex) workloadsOf(protector types.NamespacedName, stored *v1alpha1.Aggregation) []v1alpha1.ExpectedWorkload {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.expectations[protector] {
		if e.isIn(stored) {
			return e.complete
		}
	}
	return stored.Workloads
}

// isIn reports whether a status has the expectation.
func (e *expectation) isIn(stored *v1alpha1.Aggregation) bool {
	return stored.ExpectedReplicas != nil && *stored.ExpectedReplicas == e.replicas && slices.Equal(e.workloads, stored.Workloads)
}

// setTarget records the workload that a protector names; nil removes it.
func (w *workloadIndex) setTarget(protector types.NamespacedName, target *workloadName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, had := w.targets[protector]; had {
		delete(w.targets, protector)
		w.add(old, protector, -1)
	}
	if target != nil {
		w.targets[protector] = *target
		w.add(*target, protector, 1)
	}
}

// forget removes the results, the expectations and the target of a protector.
func (w *workloadIndex) forget(protector types.NamespacedName) {
	w.setResults(protector, nil)
	w.setExpectation(protector, &v1alpha1.Aggregation{}, expectation{})
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
	all := slices.Collect(maps.Keys(w.dependents[workload]))
	// Sorted, so that the simulation can repeat a run.
	slices.SortFunc(all, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return all
}

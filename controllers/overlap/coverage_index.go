package overlap

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// coverageIndex holds the claims of the protectors of each namespace. It is safe for concurrent use.
type coverageIndex struct {
	mu        sync.Mutex
	coverages map[string]map[string]protectorCoverage
}

func newCoverageIndex() *coverageIndex {
	return &coverageIndex{coverages: map[string]map[string]protectorCoverage{}}
}

// set records the coverage of a protector. It returns the protectors of the namespace that are affected: those that overlapped with it
// before, or do so now.
func (i *coverageIndex) set(key types.NamespacedName, now protectorCoverage) []types.NamespacedName {
	i.mu.Lock()
	defer i.mu.Unlock()
	old, had := i.coverages[key.Namespace][key.Name]
	if had && old.equal(now) {
		return nil
	}
	if i.coverages[key.Namespace] == nil {
		i.coverages[key.Namespace] = map[string]protectorCoverage{}
	}
	i.coverages[key.Namespace][key.Name] = now
	return i.filter(key, func(c protectorCoverage) bool { return c.overlaps(now) || had && c.overlaps(old) })
}

// remove forgets a protector, and returns those that overlapped with it.
func (i *coverageIndex) remove(key types.NamespacedName) []types.NamespacedName {
	i.mu.Lock()
	defer i.mu.Unlock()
	old, had := i.coverages[key.Namespace][key.Name]
	if !had {
		return nil
	}
	delete(i.coverages[key.Namespace], key.Name)
	if len(i.coverages[key.Namespace]) == 0 {
		delete(i.coverages, key.Namespace)
	}
	return i.filter(key, old.overlaps)
}

// overlapping returns the names of the protectors that overlap with the given one, sorted.
func (i *coverageIndex) overlapping(key types.NamespacedName) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	own, exists := i.coverages[key.Namespace][key.Name]
	if !exists {
		return nil
	}
	var names []string
	for _, other := range i.filter(key, own.overlaps) {
		names = append(names, other.Name)
	}
	return names
}

func (i *coverageIndex) filter(key types.NamespacedName, matches func(protectorCoverage) bool) []types.NamespacedName {
	var all []types.NamespacedName
	coverages := i.coverages[key.Namespace]
	for _, name := range slices.Sorted(maps.Keys(coverages)) {
		if name != key.Name && matches(coverages[name]) {
			all = append(all, types.NamespacedName{Namespace: key.Namespace, Name: name})
		}
	}
	return all
}

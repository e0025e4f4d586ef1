package overlap

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// territory holds the claims of the protectors of each namespace. It is safe for concurrent use.
type territory struct {
	mu     sync.Mutex
	claims map[string]map[string]claim
}

func newTerritory() *territory {
	return &territory{claims: map[string]map[string]claim{}}
}

// claim records the coverage of a protector. It returns the protectors of the namespace that are affected: those that overlapped with it
// before, or do so now.
func (t *territory) claim(key types.NamespacedName, now claim) []types.NamespacedName {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, had := t.claims[key.Namespace][key.Name]
	if had && old.equal(now) {
		return nil
	}
	if t.claims[key.Namespace] == nil {
		t.claims[key.Namespace] = map[string]claim{}
	}
	t.claims[key.Namespace][key.Name] = now
	return t.others(key, func(c claim) bool { return c.overlaps(now) || had && c.overlaps(old) })
}

// abandon forgets a protector, and returns those that overlapped with it.
func (t *territory) abandon(key types.NamespacedName) []types.NamespacedName {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, had := t.claims[key.Namespace][key.Name]
	if !had {
		return nil
	}
	delete(t.claims[key.Namespace], key.Name)
	if len(t.claims[key.Namespace]) == 0 {
		delete(t.claims, key.Namespace)
	}
	return t.others(key, old.overlaps)
}

// rivals returns the names of the protectors that overlap with the given one, sorted.
func (t *territory) rivals(key types.NamespacedName) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	own, there := t.claims[key.Namespace][key.Name]
	if !there {
		return nil
	}
	var names []string
	for _, rival := range t.others(key, own.overlaps) {
		names = append(names, rival.Name)
	}
	return names
}

func (t *territory) others(key types.NamespacedName, are func(claim) bool) []types.NamespacedName {
	var all []types.NamespacedName
	claims := t.claims[key.Namespace]
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		if name != key.Name && are(claims[name]) {
			all = append(all, types.NamespacedName{Namespace: key.Namespace, Name: name})
		}
	}
	return all
}

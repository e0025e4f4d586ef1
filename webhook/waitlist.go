package webhook

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// maxWaiting limits how many clients wait for the budget of one protector. A later client retries at its own pace.
const maxWaiting = 1000

// waitlist records which clients wait for the budget of which protector, each once, in the order in which they were
// refused, with their last note. It is safe for concurrent use.
type waitlist[Who comparable, Note any] struct {
	mu       sync.Mutex
	order    map[protectorRef][]Who
	payloads map[protectorRef]map[Who]Note
}

// waiter is an entry of a waitlist.
type waiter[Who comparable, Note any] struct {
	client  Who
	payload Note
}

// add adds an entry, or replaces its note.
func (w *waitlist[Who, Note]) add(protector protectorRef, client Who, payload Note) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, waiting := w.payloads[protector][client]
	if !waiting && len(w.order[protector]) >= maxWaiting {
		return
	}
	if w.order == nil {
		w.order, w.payloads = map[protectorRef][]Who{}, map[protectorRef]map[Who]Note{}
	}
	if w.payloads[protector] == nil {
		w.payloads[protector] = map[Who]Note{}
	}
	w.payloads[protector][client] = payload
	if !waiting {
		w.order[protector] = append(w.order[protector], client)
	}
}

// pop removes and returns the first entries for a protector, at most the given number.
func (w *waitlist[Who, Note]) pop(protector protectorRef, limit int) (popped []waiter[Who, Note]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.order[protector]
	first := all[:min(len(all), max(limit, 0))]
	for _, client := range first {
		popped = append(popped, waiter[Who, Note]{client, w.payloads[protector][client]})
		delete(w.payloads[protector], client)
	}
	if w.order[protector] = all[len(first):]; len(w.order[protector]) == 0 {
		delete(w.order, protector)
		delete(w.payloads, protector)
	}
	return popped
}

// protectors returns the protectors that have entries, sorted.
func (w *waitlist[Who, Note]) protectors() []protectorRef {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Keys(w.order), func(a, b protectorRef) int { return strings.Compare(a.String(), b.String()) })
}

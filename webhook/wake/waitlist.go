package wake

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// maxWaiting limits how many clients wait for the budget of one protector. A later client retries at its own pace.
const maxWaiting = 1000

// waitlist records which clients wait for the budget of which protector, each once, in the order in which they were
// refused, with their last payload. It is safe for concurrent use.
type waitlist[Client comparable, Payload any] struct {
	mu       sync.Mutex
	order    map[Protector][]Client
	payloads map[Protector]map[Client]Payload
}

// waiter is an entry of a waitlist.
type waiter[Client comparable, Payload any] struct {
	client  Client
	payload Payload
}

// add adds an entry, or replaces its payload.
func (w *waitlist[Client, Payload]) add(protector Protector, client Client, payload Payload) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, waiting := w.payloads[protector][client]
	if !waiting && len(w.order[protector]) >= maxWaiting {
		return
	}
	if w.order == nil {
		w.order, w.payloads = map[Protector][]Client{}, map[Protector]map[Client]Payload{}
	}
	if w.payloads[protector] == nil {
		w.payloads[protector] = map[Client]Payload{}
	}
	w.payloads[protector][client] = payload
	if !waiting {
		w.order[protector] = append(w.order[protector], client)
	}
}

// pop removes and returns the first entries for a protector, at most the given number.
func (w *waitlist[Client, Payload]) pop(protector Protector, limit int) (popped []waiter[Client, Payload]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.order[protector]
	first := all[:min(len(all), max(limit, 0))]
	for _, client := range first {
		popped = append(popped, waiter[Client, Payload]{client, w.payloads[protector][client]})
		delete(w.payloads[protector], client)
	}
	if w.order[protector] = all[len(first):]; len(w.order[protector]) == 0 {
		delete(w.order, protector)
		delete(w.payloads, protector)
	}
	return popped
}

// protectors returns the protectors that have entries, sorted.
func (w *waitlist[Client, Payload]) protectors() []Protector {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Keys(w.order), func(a, b Protector) int { return strings.Compare(a.String(), b.String()) })
}

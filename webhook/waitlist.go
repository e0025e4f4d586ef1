package webhook

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// mostWaiting limits how many clients wait for the budget of one protector. A later client retries at its own pace.
const mostWaiting = 1000

// waitlist records which clients wait for the budget of which protector, each once, in the order in which they were
// refused, with their last note. It is safe for concurrent use.
type waitlist[Who comparable, Note any] struct {
	mu      sync.Mutex
	waiting map[protectorRef][]Who
	notes   map[protectorRef]map[Who]Note
}

// waiter is an entry of a waitlist.
type waiter[Who comparable, Note any] struct {
	who  Who
	note Note
}

// add adds an entry, or replaces its note.
func (w *waitlist[Who, Note]) add(protector protectorRef, who Who, note Note) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, waits := w.notes[protector][who]
	if !waits && len(w.waiting[protector]) >= mostWaiting {
		return
	}
	if w.waiting == nil {
		w.waiting, w.notes = map[protectorRef][]Who{}, map[protectorRef]map[Who]Note{}
	}
	if w.notes[protector] == nil {
		w.notes[protector] = map[Who]Note{}
	}
	w.notes[protector][who] = note
	if !waits {
		w.waiting[protector] = append(w.waiting[protector], who)
	}
}

// take removes and returns the first entries for a protector, at most the given number.
func (w *waitlist[Who, Note]) take(protector protectorRef, most int) (taken []waiter[Who, Note]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.waiting[protector]
	first := all[:min(len(all), max(most, 0))]
	for _, who := range first {
		taken = append(taken, waiter[Who, Note]{who, w.notes[protector][who]})
		delete(w.notes[protector], who)
	}
	if w.waiting[protector] = all[len(first):]; len(w.waiting[protector]) == 0 {
		delete(w.waiting, protector)
		delete(w.notes, protector)
	}
	return taken
}

// protectors returns the protectors that have entries, sorted.
func (w *waitlist[Who, Note]) protectors() []protectorRef {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Keys(w.waiting), func(a, b protectorRef) int { return strings.Compare(a.String(), b.String()) })
}

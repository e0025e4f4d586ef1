package webhook

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// mostWaiting bounds who waits for the budget of one protector. Whoever comes later asks again by himself, as late as that is.
const mostWaiting = 1000

// waitlist is who waits for the budget of which protector, each once, in the order in which they were refused. It is safe for
// concurrent use.
type waitlist[Who comparable] struct {
	mu      sync.Mutex
	waiting map[protectorRef][]Who
	there   map[protectorRef]map[Who]bool
}

// add lets somebody wait for a protector.
func (w *waitlist[Who]) add(protector protectorRef, who Who) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.there[protector][who] || len(w.waiting[protector]) >= mostWaiting {
		return
	}
	if w.waiting == nil {
		w.waiting, w.there = map[protectorRef][]Who{}, map[protectorRef]map[Who]bool{}
	}
	if w.there[protector] == nil {
		w.there[protector] = map[Who]bool{}
	}
	w.there[protector][who] = true
	w.waiting[protector] = append(w.waiting[protector], who)
}

// take returns the first that wait for a protector, at most so many, who do not wait any more.
func (w *waitlist[Who]) take(protector protectorRef, most int) []Who {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.waiting[protector]
	first := all[:min(len(all), max(most, 0))]
	for _, who := range first {
		delete(w.there[protector], who)
	}
	if w.waiting[protector] = all[len(first):]; len(w.waiting[protector]) == 0 {
		delete(w.waiting, protector)
		delete(w.there, protector)
	}
	return first
}

// protectors returns those that somebody waits for, in order.
func (w *waitlist[Who]) protectors() []protectorRef {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Keys(w.waiting), func(a, b protectorRef) int { return strings.Compare(a.String(), b.String()) })
}

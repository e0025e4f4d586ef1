package scheduling

import (
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// count is the result of a policy over some time.
type count struct {
	matched, injected, conflicts, rejected int64
	// lastInjected is when the policy last changed an object; zero is never.
	lastInjected time.Time
	// clash describes one of the conflicts.
	clash string
}

// plus returns the sum of both counts, of which the other one is later.
func (c count) plus(later count) count {
	sum := count{
		matched: c.matched + later.matched, injected: c.injected + later.injected, conflicts: c.conflicts + later.conflicts,
		rejected: c.rejected + later.rejected, lastInjected: later.lastInjected, clash: later.clash,
	}
	if sum.lastInjected.IsZero() {
		sum.lastInjected = c.lastInjected
	}
	if sum.clash == "" {
		sum.clash = c.clash
	}
	return sum
}

// countOf returns the count of a policy in one review.
func countOf(outcome scheduling.Outcome, refused bool, now time.Time) count {
	c := count{matched: 1}
	if len(outcome.Injected) > 0 && !refused {
		c.injected, c.lastInjected = 1, now
	}
	if len(outcome.Conflicts) > 0 {
		c.conflicts, c.clash = 1, outcome.Conflicts[0].String()
		if refused && outcome.Spec.ConflictPolicy == v1alpha1.ConflictReject {
			c.rejected = 1
		}
	}
	return c
}

// tally holds the counts of policies that have not been written to a status yet.
type tally struct {
	now func() time.Time

	mu sync.Mutex
	of map[scheduling.Ref]count
}

func newTally(now func() time.Time) *tally { return &tally{now: now, of: map[scheduling.Ref]count{}} }

// note adds an answer.
func (t *tally) note(a Answer) {
	if len(a.Outcomes) == 0 {
		return
	}
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, outcome := range a.Outcomes {
		t.of[outcome.Ref] = t.of[outcome.Ref].plus(countOf(outcome, a.Refusal != "", now))
	}
}

// take removes and returns the count of a policy. The caller is responsible for it from then on.
func (t *tally) take(of scheduling.Ref) count {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of[of]
	delete(t.of, of)
	return c
}

// putBack undoes take.
func (t *tally) putBack(of scheduling.Ref, c count) {
	if c == (count{}) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of[of] = c.plus(t.of[of])
}

// keep removes the policies of a core cluster that no longer exist.
func (t *tally) keep(core string, there map[scheduling.Ref]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ref := range t.of {
		if ref.Core == core && !there[ref] {
			delete(t.of, ref)
		}
	}
}

package scheduling

import (
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// count is what came of a policy in some time.
type count struct {
	matched, injected, conflicts, rejected int64
	// lastInjected is when it has last changed an object; zero is not.
	lastInjected time.Time
	// clash is one of the conflicts, in words.
	clash string
}

// plus is both together, of which the other one is later.
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

// countOf is what came of a policy in one review.
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

// tally is what came of policies and stands in no status yet.
type tally struct {
	now func() time.Time

	mu sync.Mutex
	of map[scheduling.Ref]count
}

func newTally(now func() time.Time) *tally { return &tally{now: now, of: map[scheduling.Ref]count{}} }

// note takes an answer in.
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

// take is what is to be written of a policy, which somebody else sees to from now on.
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

// keep forgets the policies of a core cluster that are not there any more.
func (t *tally) keep(core string, there map[scheduling.Ref]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ref := range t.of {
		if ref.Core == core && !there[ref] {
			delete(t.of, ref)
		}
	}
}

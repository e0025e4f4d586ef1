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
	// conflict describes one of the conflicts.
	conflict string
}

// plus returns the sum of both counts, of which the other one is later.
func (c count) plus(later count) count {
	sum := count{
		matched: c.matched + later.matched, injected: c.injected + later.injected, conflicts: c.conflicts + later.conflicts,
		rejected: c.rejected + later.rejected, lastInjected: later.lastInjected, conflict: later.conflict,
	}
	if sum.lastInjected.IsZero() {
		sum.lastInjected = c.lastInjected
	}
	if sum.conflict == "" {
		sum.conflict = c.conflict
	}
	return sum
}

// countOf returns the count of a policy in one review.
func countOf(outcome scheduling.Outcome, denied bool, now time.Time) count {
	c := count{matched: 1}
	if len(outcome.Injected) > 0 && !denied {
		c.injected, c.lastInjected = 1, now
	}
	if len(outcome.Conflicts) > 0 {
		c.conflicts, c.conflict = 1, outcome.Conflicts[0].String()
		if denied && outcome.Spec.ConflictPolicy == v1alpha1.ConflictReject {
			c.rejected = 1
		}
	}
	return c
}

// policyCounts holds the counts of policies that have not been written to a status yet.
type policyCounts struct {
	now func() time.Time

	mu       sync.Mutex
	byPolicy map[scheduling.Ref]count
}

func newPolicyCounts(now func() time.Time) *policyCounts {
	return &policyCounts{now: now, byPolicy: map[scheduling.Ref]count{}}
}

// add adds an answer.
func (t *policyCounts) add(a Answer) {
	if len(a.Outcomes) == 0 {
		return
	}
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, outcome := range a.Outcomes {
		t.byPolicy[outcome.Ref] = t.byPolicy[outcome.Ref].plus(countOf(outcome, a.Denial != "", now))
	}
}

// pop removes and returns the count of a policy. The caller is responsible for it from then on.
func (t *policyCounts) pop(of scheduling.Ref) count {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byPolicy[of]
	delete(t.byPolicy, of)
	return c
}

// restore undoes take.
func (t *policyCounts) restore(of scheduling.Ref, c count) {
	if c == (count{}) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byPolicy[of] = c.plus(t.byPolicy[of])
}

// retain removes the policies of a core cluster that no longer exist.
func (t *policyCounts) retain(core string, existing map[scheduling.Ref]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ref := range t.byPolicy {
		if ref.Core == core && !existing[ref] {
			delete(t.byPolicy, ref)
		}
	}
}

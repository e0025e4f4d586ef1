package brake

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Verdict is what becomes of a large decrease.
type Verdict string

const (
	// Granted says that it may take effect now. The grant holds only once it is stored, if Answer.Grants is set.
	Granted Verdict = "Granted"
	// Quiet says that it waits for its quiet period.
	Quiet Verdict = "Quiet"
	// Held says that it waits until it is confirmed, or until the limit allows it.
	Held Verdict = "Held"
)

// Pending is a large decrease that has not taken effect.
type Pending struct {
	// Protector is the UID of its protector, which has one pending decrease at most.
	Protector types.UID
	// Since is when it was first seen.
	Since time.Time
	// Cascade reports that it is held as a cascade: it takes nothing of the budget by waiting.
	Cascade bool
}

// Grant is a large decrease that was allowed to take effect.
type Grant struct {
	Protector types.UID `json:"protector"`
	At        time.Time `json:"at"`
}

// State is what a decision is made from: all that is known of one budget.
type State struct {
	Limits Limits
	// Protectors is how many protectors the budget is for.
	Protectors int
	// Pending are all pending decreases, also the one that is decided on.
	Pending []Pending
	// Grants are those that are stored. Older ones than the window do not count.
	Grants []Grant
}

// Answer is the answer to one pending decrease.
type Answer struct {
	Verdict Verdict
	// Grants are to be stored by compare-and-swap before the decrease takes effect; nil if nothing is to be stored.
	Grants []Grant
	// Retry is how long to wait before the decision is made again. 0 for Granted, and if only a confirmation can change it.
	Retry time.Duration
	// Pending and Left are the numbers that the decision was made from: decreases pending, and decreases left in the window.
	Pending, Left int
}

// shortestRetry keeps a decision that depends on others from being repeated in a loop.
const shortestRetry = time.Second

// Decide decides on the pending decrease p (rule 13). Clocks of several machines are compared, which differ by little against the
// window: one that is ahead shortens a quiet period or the window by the difference, and cannot exceed the limit of a window.
func Decide(s State, p Pending, now time.Time) Answer {
	grants := s.recent(now)
	open := s.open(grants)
	answer := Answer{Verdict: Held, Pending: len(open), Left: max(0, s.Limits.Allowed(s.Protectors)-len(grants))}
	age := now.Sub(p.Since)
	switch {
	case granted(grants, p.Protector):
		// A crash between the grant and its effect must not consume the budget twice.
		answer.Verdict = Granted
	case p.Cascade:
	case age < s.Limits.Quiet:
		answer.Verdict, answer.Retry = Quiet, min(s.Limits.Quiet-age, s.Limits.Quiet)
	case len(open) <= answer.Left, age >= s.Limits.Window && isAmongOldest(open, p.Protector, answer.Left):
		answer.Verdict = Granted
		answer.Grants = slices.Concat(grants, []Grant{{Protector: p.Protector, At: now}})
	default:
		answer.Retry = max(shortestRetry, s.Limits.Window-age, s.nextExpiry(grants, answer.Left, now))
	}
	return answer
}

// recent are the grants of the current window. One from the future, by a clock that is ahead, counts.
func (s State) recent(now time.Time) []Grant {
	return slices.DeleteFunc(slices.Clone(s.Grants), func(g Grant) bool { return now.Sub(g.At) >= s.Limits.Window })
}

// open are the pending decreases that wait for the budget.
func (s State) open(grants []Grant) []Pending {
	given := make(map[types.UID]bool, len(grants))
	for _, g := range grants {
		given[g.Protector] = true
	}
	return slices.DeleteFunc(slices.Clone(s.Pending), func(p Pending) bool { return p.Cascade || given[p.Protector] })
}

// nextExpiry is how long it takes until a grant leaves the window, if none is left.
func (s State) nextExpiry(grants []Grant, left int, now time.Time) time.Duration {
	if left > 0 || len(grants) == 0 {
		return 0
	}
	oldest := slices.MinFunc(grants, func(a, b Grant) int { return a.At.Compare(b.At) })
	return oldest.At.Add(s.Limits.Window).Sub(now)
}

func granted(grants []Grant, uid types.UID) bool {
	return slices.ContainsFunc(grants, func(g Grant) bool { return g.Protector == uid })
}

func isAmongOldest(open []Pending, uid types.UID, n int) bool {
	slices.SortFunc(open, func(a, b Pending) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Protector, b.Protector))
	})
	return slices.ContainsFunc(open[:min(n, len(open))], func(p Pending) bool { return p.Protector == uid })
}

package brake

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Verdict is the decision on a large decrease.
type Verdict string

const (
	// Granted means that the decrease may take effect now. If Answer.Grants is set, the grant holds only once it is stored.
	Granted Verdict = "Granted"
	// Quiet means that the decrease waits for its quiet period.
	Quiet Verdict = "Quiet"
	// Held means that the decrease waits until a user confirms it, or until the limit allows it.
	Held Verdict = "Held"
)

// Pending is a large decrease that has not taken effect.
type Pending struct {
	// Protector is the UID of the decrease's protector. A protector has at most one pending decrease.
	Protector types.UID
	// Since is the time at which the decrease was first seen.
	Since time.Time
	// Cascade reports whether the decrease is held as a cascade. It then consumes no budget while it waits.
	Cascade bool
	// Change identifies the decrease among all of the protector, see ChangeOf.
	Change string
}

// Grant is a large decrease that was allowed to take effect. It permits this decrease, also after a crash, and no later one of the protector.
type Grant struct {
	Protector types.UID `json:"protector"`
	At        time.Time `json:"at"`
	// Change is that of the decrease. Versions that granted any decrease of the protector wrote none.
	Change string `json:"change,omitempty"`
}

// permits reports whether the grant is for a decrease.
func (g Grant) permits(p Pending, quiet time.Duration) bool {
	return g.Protector == p.Protector && g.Change == p.Change && g.Change != "" && g.isOf(p, quiet)
}

// isOf reports whether the grant can be for the record of a decrease. The record stays the same if the grant has not taken effect, as after a crash, so that
// the grant is later by the quiet period. A record made after the grant is of another decrease, also if the first one was reverted before it took effect.
// Times of records have whole seconds: with a quiet period of less than a second it does not notice a revert within the second of the grant.
func (g Grant) isOf(p Pending, quiet time.Duration) bool { return g.At.Sub(p.Since) >= quiet }

// isInEffect reports whether a recorded decrease is the granted one, which has taken effect: it has raised the generation, and its record is not
// withdrawn yet. A later decrease with the same effect has a later generation, or was first seen after the grant.
func (g Grant) isInEffect(p Pending, quiet time.Duration) bool {
	next, ok := nextChange(g.Change)
	return ok && g.Protector == p.Protector && next == p.Change && g.isOf(p, quiet)
}

// State is the input of a decision about one budget.
type State struct {
	Limits Limits
	// Protectors is the number of protectors that share the budget.
	Protectors int
	// Pending has all pending decreases, including the one to decide on.
	Pending []Pending
	// Grants has the stored grants. Grants older than the window do not count.
	Grants []Grant
}

// Answer is the answer to one pending decrease.
type Answer struct {
	Verdict Verdict
	// Grants must be stored by compare-and-swap before the decrease takes effect. It is nil if there is nothing to store.
	Grants []Grant
	// Retry is the time to wait before the next decision. It is 0 for Granted, and if only a confirmation can change the verdict.
	Retry time.Duration
	// Pending and Left are inputs of the decision: the number of pending decreases, and the number still allowed in the window.
	Pending, Left int
}

// minRetry prevents a busy loop when a decision depends on other decreases.
const minRetry = time.Second

// Decide decides on the pending decrease p (rule 13). It compares the clocks of several machines, whose difference is small compared
// to the window. A clock that is ahead shortens a quiet period or the window by the difference. It cannot exceed the limit of a
// window.
func Decide(s State, p Pending, now time.Time) Answer {
	grants := s.recent(now)
	open := s.waiting(grants, p)
	answer := Answer{Verdict: Held, Pending: len(open), Left: max(0, s.Limits.Allowed(s.Protectors)-len(grants))}
	age := now.Sub(s.since(grants, p))
	switch {
	case isGranted(grants, p, s.Limits.Quiet):
		// A crash between the grant and its effect must not consume the budget twice.
		answer.Verdict = Granted
	case p.Cascade:
	case age < s.Limits.Quiet:
		answer.Verdict, answer.Retry = Quiet, min(s.Limits.Quiet-age, s.Limits.Quiet)
	case answer.Left > 0 && len(open) <= answer.Left, age >= s.Limits.Window && isAmongOldest(open, p.Protector, answer.Left):
		answer.Verdict = Granted
		answer.Grants = slices.Concat(grants, []Grant{{Protector: p.Protector, At: now, Change: p.Change}})
	default:
		answer.Retry = max(minRetry, s.Limits.Window-age, s.nextExpiry(grants, answer.Left, now))
	}
	return answer
}

// recent returns the grants of the current window. It includes a grant from the future, which a clock that is ahead has written.
func (s State) recent(now time.Time) []Grant {
	return slices.DeleteFunc(slices.Clone(s.Grants), func(g Grant) bool { return now.Sub(g.At) >= s.Limits.Window })
}

// waiting returns the pending decreases that wait for budget. p is the one to decide on, which no grant permits: it waits, whatever was granted to its
// protector before. Another one does not wait if it was granted, also while its record remains after it has taken effect.
func (s State) waiting(grants []Grant, p Pending) []Pending {
	given := make(map[types.UID][]Grant, len(grants))
	for _, g := range grants {
		given[g.Protector] = append(given[g.Protector], g)
	}
	return slices.DeleteFunc(slices.Clone(s.Pending), func(other Pending) bool {
		return other.Cascade || other.Protector != p.Protector && slices.ContainsFunc(given[other.Protector], func(g Grant) bool {
			return g.permits(other, s.Limits.Quiet) || g.isInEffect(other, s.Limits.Quiet)
		})
	})
}

// since returns when p was first seen. If its record is that of an earlier decrease which has taken effect, p was requested after that grant.
func (s State) since(grants []Grant, p Pending) time.Time {
	since := p.Since
	for _, g := range grants {
		if g.isInEffect(p, s.Limits.Quiet) && g.At.After(since) {
			since = g.At
		}
	}
	return since
}

// nextExpiry returns the time until the oldest grant leaves the window, or 0 if budget is left.
func (s State) nextExpiry(grants []Grant, left int, now time.Time) time.Duration {
	if left > 0 || len(grants) == 0 {
		return 0
	}
	oldest := slices.MinFunc(grants, func(a, b Grant) int { return a.At.Compare(b.At) })
	return oldest.At.Add(s.Limits.Window).Sub(now)
}

func isGranted(grants []Grant, p Pending, quiet time.Duration) bool {
	return slices.ContainsFunc(grants, func(g Grant) bool { return g.permits(p, quiet) })
}

func isAmongOldest(open []Pending, uid types.UID, n int) bool {
	slices.SortFunc(open, func(a, b Pending) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Protector, b.Protector))
	})
	return slices.ContainsFunc(open[:min(n, len(open))], func(p Pending) bool { return p.Protector == uid })
}

package brake

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Waiting is a pending decrease with the limits of its protector.
type Waiting struct {
	Pending
	Limits Limits
}

// Predict predicts the answer of Decide for decreases that are all pending now. It decides on each at the end of its quiet period,
// the oldest first, and carries the grants of one over to the next. It does not read s.Limits and s.Pending.
func Predict(s State, waiting []Waiting, now time.Time) map[types.UID]Answer {
	answers := map[types.UID]Answer{}
	waiting = slices.SortedFunc(slices.Values(waiting), func(a, b Waiting) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Protector, b.Protector))
	})
	s.Pending = make([]Pending, 0, len(waiting))
	for i := range waiting {
		waiting[i].Cascade = waiting[i].Limits.HoldsCascade(waiting[i].Pending)
		s.Pending = append(s.Pending, waiting[i].Pending)
	}
	for _, w := range waiting {
		s.Limits = w.Limits
		answer := Decide(s, w.Pending, now.Add(w.Limits.Quiet))
		if answer.Grants != nil {
			s.Grants = answer.Grants
		}
		answers[w.Protector] = answer
	}
	return answers
}

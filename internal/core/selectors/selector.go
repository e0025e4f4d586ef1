// Package selectors determines which protectors cover a pod. It compiles the label selectors of protectors, and finds those that
// match a pod's labels without checking all of them.
//
// It is pure.
package selectors

import (
	"slices"
	"strings"
)

// nothingKey is the Key of every selector that no pod can match. It is not a valid label selector, so it cannot be mistaken for one.
const nothingKey = "<nothing>"

// Selector is a compiled v1alpha1.PodSelector. It is immutable, so goroutines may share it.
type Selector struct {
	// requirements are sorted by key, with one entry per key. So selectors with the same meaning are equal: conditions on other keys
	// can never express a condition on one key.
	requirements []requirement
	// matchesNothing is set if requirements contradict each other. They are then dropped.
	matchesNothing bool
	key            string
}

// Everything matches every pod. Callers use it in place of a protector's selector that does not compile. A protector that covers too
// many pods denies too many removals; one that covers too few breaks its promise.
func Everything() *Selector {
	return &Selector{}
}

// Nothing matches no pod.
func Nothing() *Selector {
	return &Selector{matchesNothing: true, key: nothingKey}
}

// Matches reports whether the selector matches a pod with these labels.
func (s *Selector) Matches(labels map[string]string) bool {
	if s.matchesNothing {
		return false
	}
	for i := range s.requirements {
		r := &s.requirements[i]
		value, there := labels[r.key]
		if !r.admits(value, there) {
			return false
		}
	}
	return true
}

// Key returns a canonical text of the selector. It is equal for two selectors if and only if they match the same pods. Except for
// selectors that match no pod, it is also their text in Kubernetes syntax.
func (s *Selector) Key() string {
	return s.key
}

// CanMatch reports whether any pod could match.
func (s *Selector) CanMatch() bool { return !s.matchesNothing }

// newSelector combines requirements, several of which may have the same key.
func newSelector(all []requirement) *Selector {
	slices.SortStableFunc(all, func(a, b requirement) int { return strings.Compare(a.key, b.key) })
	joined := all[:0]
	for _, r := range all {
		last := len(joined) - 1
		if last < 0 || joined[last].key != r.key {
			joined = append(joined, r)
			continue
		}
		both, possible := joined[last].intersect(r)
		if !possible {
			return Nothing()
		}
		joined[last] = both
	}
	s := &Selector{requirements: slices.Clip(joined)}
	s.key = s.text()
	return s
}

func (s *Selector) text() string {
	var b strings.Builder
	for i, r := range s.requirements {
		if i > 0 {
			b.WriteByte(',')
		}
		r.write(&b)
	}
	return b.String()
}

// Package selectors tells which protectors cover a pod: it compiles the label selectors of protectors, and
// finds those that match a pod's labels without looking at all of them.
//
// It is pure: values in, values out.
package selectors

import (
	"slices"
	"strings"
)

// nothingKey is the Key of every selector that no pod can match. It is no label selector, so it cannot be
// taken for one.
const nothingKey = "<nothing>"

// Selector is a compiled v1alpha1.PodSelector. It never changes, so goroutines may share it.
type Selector struct {
	// requirements are sorted by key and have one entry a key, so that two selectors of equal meaning are
	// equal: a condition on one key can never be expressed by conditions on others.
	requirements []requirement
	// nothing is set when requirements contradict each other; they are then dropped.
	nothing bool
	key     string
}

// Everything matches every pod. Who cannot compile a protector's selector uses it in its place: a protector
// that covers too many pods refuses too much, one that covers too few breaks its promise.
func Everything() *Selector {
	return &Selector{}
}

// Nothing matches no pod.
func Nothing() *Selector {
	return &Selector{nothing: true, key: nothingKey}
}

// Matches tells whether a pod with these labels is chosen.
func (s *Selector) Matches(labels map[string]string) bool {
	if s.nothing {
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

// Key is a canonical text of the selector: equal for two selectors just when they choose the same pods. For
// all but selectors that choose no pod it is also their text in Kubernetes' notation.
func (s *Selector) Key() string {
	return s.key
}

// Possible tells whether a pod could match at all.
func (s *Selector) Possible() bool { return !s.nothing }

// newSelector joins requirements of which several may speak of one key.
func newSelector(all []requirement) *Selector {
	slices.SortStableFunc(all, func(a, b requirement) int { return strings.Compare(a.key, b.key) })
	joined := all[:0]
	for _, r := range all {
		last := len(joined) - 1
		if last < 0 || joined[last].key != r.key {
			joined = append(joined, r)
			continue
		}
		both, possible := joined[last].and(r)
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

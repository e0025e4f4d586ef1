package selectors

import "slices"

// Intersect returns a selector for the pods that both selectors match.
func (s *Selector) Intersect(o *Selector) *Selector {
	if s.matchesNothing || o.matchesNothing {
		return Nothing()
	}
	return newSelector(slices.Concat(s.requirements, o.requirements))
}

// Overlaps reports whether a pod could match both selectors. The result is exact: labels are independent of each other, and for each
// label the requirements of both either leave a value, or its absence, or neither.
func (s *Selector) Overlaps(o *Selector) bool { return s.Intersect(o).CanMatch() }

// Includes reports whether s matches every pod that o matches.
func (s *Selector) Includes(o *Selector) bool { return s.Intersect(o).Key() == o.Key() }

// without returns selectors whose union matches the pods that s matches and o does not. A nil o matches none.
func (s *Selector) without(o *Selector) []*Selector {
	if o == nil || o.matchesNothing {
		return []*Selector{s}
	}
	var all []*Selector
	for _, r := range o.requirements {
		for _, other := range r.negate() {
			if rest := s.Intersect(&Selector{requirements: []requirement{other}}); rest.CanMatch() {
				all = append(all, rest)
			}
		}
	}
	return all
}

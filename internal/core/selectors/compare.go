package selectors

import "slices"

// And chooses the pods that both choose.
func (s *Selector) And(o *Selector) *Selector {
	if s.nothing || o.nothing {
		return Nothing()
	}
	return newSelector(slices.Concat(s.requirements, o.requirements))
}

// Overlaps tells whether some pod could be chosen by both. It is exact: what the two ask of one label either leaves a
// value, or its absence, or it does not, and labels are independent of each other.
func (s *Selector) Overlaps(o *Selector) bool { return s.And(o).Possible() }

// Includes tells whether every pod that o chooses is chosen by s as well.
func (s *Selector) Includes(o *Selector) bool { return s.And(o).Key() == o.Key() }

// without chooses the pods that s chooses and o does not: those that one of the results chooses. A nil o chooses none.
func (s *Selector) without(o *Selector) []*Selector {
	if o == nil || o.nothing {
		return []*Selector{s}
	}
	var all []*Selector
	for _, r := range o.requirements {
		for _, other := range r.not() {
			if rest := s.And(&Selector{requirements: []requirement{other}}); rest.Possible() {
				all = append(all, rest)
			}
		}
	}
	return all
}

package selectorindex

import "slices"

// And chooses the pods that both choose.
func (s *Selector) And(o *Selector) *Selector {
	if s.nothing || o.nothing {
		return &Selector{nothing: true, key: nothingKey}
	}
	return newSelector(slices.Concat(s.requirements, o.requirements))
}

// Overlaps tells whether some pod could be chosen by both. It is exact: what the two ask of one label either leaves a
// value, or its absence, or it does not, and labels are independent of each other.
func (s *Selector) Overlaps(o *Selector) bool { return s.And(o).Possible() }

// Includes tells whether every pod that o chooses is chosen by s as well.
func (s *Selector) Includes(o *Selector) bool { return s.And(o).Key() == o.Key() }

package storm

import (
	"cmp"
	"slices"
)

// path returns the events on the path to a node.
func (s *search) path(at int32) []placed {
	var order []placed
	for ; s.nodes[at].parent >= 0; at = s.nodes[at].parent {
		cell := int(s.nodes[at].cell)
		index := s.positions(at)[cell] - 1
		order = append(order, placed{cell: cell, index: index, event: s.streams[cell].Events[index]})
	}
	slices.Reverse(order)
	return order
}

// bySight returns the events after the positions in the order in which they were seen, which their bounds allow.
func (s *search) bySight(positions []int) []placed {
	var order []placed
	for cell, from := range positions {
		for index := from; index < len(s.streams[cell].Events); index++ {
			order = append(order, placed{cell: cell, index: index, event: s.streams[cell].Events[index]})
		}
	}
	slices.SortStableFunc(order, func(a, b placed) int { return cmp.Compare(a.event.Seen, b.event.Seen) })
	return order
}

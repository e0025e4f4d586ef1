package storm

import (
	"cmp"
	"slices"
)

// path returns the events on the path to a node.
func (s *search) path(at int32) []placedEvent {
	var order []placedEvent
	for ; s.nodes[at].parent >= 0; at = s.nodes[at].parent {
		cell := int(s.nodes[at].cell)
		index := s.positions(at)[cell] - 1
		order = append(order, placedEvent{cell: cell, index: index, event: s.streams[cell].Events[index]})
	}
	slices.Reverse(order)
	return order
}

// inSeenOrder returns the events after the positions in the order in which they were seen, which their bounds allow.
func (s *search) inSeenOrder(positions []int) []placedEvent {
	var order []placedEvent
	for cell, from := range positions {
		for index := from; index < len(s.streams[cell].Events); index++ {
			order = append(order, placedEvent{cell: cell, index: index, event: s.streams[cell].Events[index]})
		}
	}
	slices.SortStableFunc(order, func(a, b placedEvent) int { return cmp.Compare(a.event.Seen, b.event.Seen) })
	return order
}

package storm

import (
	"math"
	"slices"
)

// leastBreach finds an order of all events that their bounds allow, with as few over-admissions as possible and, among those, the highest
// minimum. It gives up after limit states.
//
// A state is how many events of each stream have been placed. Its total follows from that, in any order. So the search runs level by level
// (a level: as many events placed) and keeps one best path to each state. An event can be placed next if it may have happened before the
// next event of every other stream was seen. The event that was seen first always can, so there are no dead ends.
func leastBreach(streams []Stream, floor, limit int) ([]placedEvent, bool) {
	s, ok := newSearch(streams, floor, limit)
	if !ok {
		return nil, false
	}
	level := []int32{s.add(node{parent: -1, least: s.total(make([]int, len(streams)))})}
	best := int32(-1)
	for len(level) > 0 {
		next := map[uint64]int32{}
		for _, at := range level {
			if s.settled(s.positions(at)) {
				if best < 0 || s.outcome(at).better(s.outcome(best)) {
					best = at
				}
				continue
			}
			if !s.expand(at, next) {
				return nil, false
			}
		}
		level = level[:0]
		for _, at := range next {
			level = append(level, at)
		}
		slices.Sort(level) // a map has no order; the same record must give the same verdict
	}
	return append(s.path(best), s.inSeenOrder(s.positions(best))...), true
}

// node is the best known path to one state.
type node struct {
	key      uint64 // the state
	parent   int32
	breaches int32
	least    int32
	cell     uint8 // whose event was placed last
}

func (n node) better(other node) bool {
	if n.breaches != other.breaches {
		return n.breaches < other.breaches
	}
	return n.least > other.least
}

type search struct {
	streams []Stream
	floor   int32
	limit   int
	strides []uint64
	counts  [][]int32 // counts[c][i]: available in c after i events
	gains   []int     // gains[c]: how many events of c until only removals are left
	nodes   []node
	scratch []int
}

func newSearch(streams []Stream, floor, limit int) (*search, bool) {
	s := &search{streams: streams, floor: int32(floor), limit: limit, scratch: make([]int, len(streams))}
	if len(streams) > math.MaxUint8 {
		return nil, false
	}
	stride := uint64(1)
	for _, stream := range streams {
		s.strides = append(s.strides, stride)
		if size := uint64(len(stream.Events) + 1); stride > math.MaxUint64/size {
			return nil, false
		}
		stride *= uint64(len(stream.Events) + 1)

		counts := []int32{int32(stream.Baseline)}
		last := 0
		for i, event := range stream.Events {
			counts = append(counts, counts[i]+int32(event.Change.step()))
			if event.Change != Removed {
				last = i + 1
			}
		}
		s.counts = append(s.counts, counts)
		s.gains = append(s.gains, last)
	}
	return s, true
}

func (s *search) add(n node) int32 {
	s.nodes = append(s.nodes, n)
	return int32(len(s.nodes) - 1)
}

// positions returns how many events of each stream are placed at a node, in a slice that the next call overwrites.
func (s *search) positions(at int32) []int {
	for c, stride := range s.strides {
		s.scratch[c] = int(s.nodes[at].key / stride % uint64(len(s.streams[c].Events)+1))
	}
	return s.scratch
}

func (s *search) total(positions []int) int32 {
	var total int32
	for c, i := range positions {
		total += s.counts[c][i]
	}
	return total
}

// settled reports whether only removals are left: their order changes nothing any more.
func (s *search) settled(positions []int) bool {
	for c, i := range positions {
		if i < s.gains[c] {
			return false
		}
	}
	return true
}

// outcome adds the effect of the remaining removals to a settled node.
func (s *search) outcome(at int32) node {
	positions := s.positions(at)
	end := s.nodes[at]
	total := s.total(positions)
	var left int32
	for c, i := range positions {
		left += int32(len(s.streams[c].Events) - i)
	}
	final := total - left
	end.breaches += min(left, max(0, s.floor-final))
	end.least = min(end.least, final)
	return end
}

// expand places every event that can come next. If a gain can come next, expand tries only that: an earlier gain makes no later total
// lower and delays no later event. It reports false if the limit is reached.
func (s *search) expand(at int32, next map[uint64]int32) bool {
	positions := s.positions(at)
	total := s.total(positions)
	var losses []int
	for c := range s.streams {
		switch event, ok := s.placeable(c, positions); {
		case !ok:
		case event.Change == Gained:
			return s.place(at, c, event, total, next)
		default:
			losses = append(losses, c)
		}
	}
	for _, c := range losses {
		if !s.place(at, c, s.streams[c].Events[positions[c]], total, next) {
			return false
		}
	}
	return true
}

func (s *search) placeable(c int, positions []int) (Event, bool) {
	if positions[c] == len(s.streams[c].Events) {
		return Event{}, false
	}
	event := s.streams[c].Events[positions[c]]
	for d, i := range positions {
		if d != c && i < len(s.streams[d].Events) && event.Earliest > s.streams[d].Events[i].Seen {
			return Event{}, false
		}
	}
	return event, true
}

func (s *search) place(at int32, cell int, event Event, total int32, next map[uint64]int32) bool {
	total += int32(event.Change.step())
	path := s.nodes[at]
	path.key += s.strides[cell]
	path.parent, path.cell = at, uint8(cell)
	path.least = min(path.least, total)
	if event.Change == Removed && total < s.floor {
		path.breaches++
	}
	if known, ok := next[path.key]; ok {
		if path.better(s.nodes[known]) {
			s.nodes[known] = path
		}
		return true
	}
	if len(s.nodes) >= s.limit {
		return false
	}
	next[path.key] = s.add(path)
	return true
}

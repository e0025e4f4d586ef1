package history

import (
	"slices"
	"time"
)

// Sample is what is known of a protector at a time, in numbers of pods. The zero value is that nothing is known.
type Sample struct {
	Available int32 `json:"available"`
	Reserved  int32 `json:"reserved"`
	Floor     int32 `json:"floor"`
	// FloorKnown tells whether there is something to reckon the floor from, and Known whether there is a protector.
	FloorKnown bool `json:"floorKnown"`
	Known      bool `json:"known"`
}

// Point is one slot of time in which something has changed.
type Point struct {
	// At is when the slot begins.
	At time.Time `json:"at"`
	// Last is what was known at its end, and until the next point.
	Last Sample `json:"last"`
	// Lowest is the smallest number of available pods in the slot, of what was known.
	Lowest int32 `json:"lowest"`
	// Refused is the number of removals that were refused in the slot.
	Refused int32 `json:"refused"`
}

// tier keeps points of one resolution, in order of time. The first may be older than is kept: it says what was known since.
type tier struct {
	slot, keep time.Duration
	points     []Point
}

// observe takes in a sample. A time before the last point is taken for that of the point: clocks can be set back.
func (t *tier) observe(at time.Time, s Sample) {
	last := t.last()
	if last == nil {
		t.points = append(t.points, Point{At: at.Truncate(t.slot), Last: s, Lowest: s.Available})
		return
	}
	if last.At.Equal(at.Truncate(t.slot)) || at.Before(last.At) {
		last.Lowest = lowest(last.Last, last.Lowest, s)
		last.Last = s
		return
	}
	if last.Last != s {
		t.points = append(t.points, Point{At: at.Truncate(t.slot), Last: s, Lowest: lowest(last.Last, last.Last.Available, s)})
	}
}

// lowest is the smallest number of available pods before a sample and with it; what nobody knew is no number.
func lowest(before Sample, least int32, s Sample) int32 {
	switch {
	case !s.Known:
		return least
	case !before.Known:
		return s.Available
	default:
		return min(least, s.Available)
	}
}

// refuse notes refusals, of a time that may have passed.
func (t *tier) refuse(at time.Time, removals int32) {
	slot := at.Truncate(t.slot)
	i, found := slices.BinarySearchFunc(t.points, slot, func(p Point, at time.Time) int { return p.At.Compare(at) })
	if !found {
		point := Point{At: slot}
		if i > 0 {
			point.Last, point.Lowest = t.points[i-1].Last, t.points[i-1].Last.Available
		}
		t.points = slices.Insert(t.points, i, point)
	}
	t.points[i].Refused += removals
}

// forget drops what is older than keep. The last point before says what is known since, and stays for that alone.
func (t *tier) forget(now time.Time, keep time.Duration) {
	horizon := now.Add(-keep)
	first, exact := slices.BinarySearchFunc(t.points, horizon, func(p Point, at time.Time) int { return p.At.Compare(at) })
	if first > 1 {
		t.points = slices.Delete(t.points, 0, first-1)
		first = 1
	}
	if first == 1 && exact {
		t.points = slices.Delete(t.points, 0, 1)
	} else if first == 1 {
		old := &t.points[0]
		old.Refused, old.Lowest = 0, old.Last.Available
	}
}

func (t *tier) last() *Point {
	if len(t.points) == 0 {
		return nil
	}
	return &t.points[len(t.points)-1]
}

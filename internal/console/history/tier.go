package history

import (
	"slices"
	"time"
)

// Sample is the state of a protector at a time, in numbers of pods. The zero value means unknown.
type Sample struct {
	Available int32 `json:"available"`
	Reserved  int32 `json:"reserved"`
	Floor     int32 `json:"floor"`
	// FloorKnown reports whether the floor can be computed. Known reports whether the protector exists.
	FloorKnown bool `json:"floorKnown"`
	Known      bool `json:"known"`
}

// Point is a time slot in which something changed.
type Point struct {
	// At is the beginning of the slot.
	At time.Time `json:"at"`
	// Last is the state at the end of the slot, which holds until the next point.
	Last Sample `json:"last"`
	// Lowest is the lowest known number of available pods in the slot.
	Lowest int32 `json:"lowest"`
	// Denied is the number of removals that were denied in the slot.
	Denied int32 `json:"refused"`
}

// tier keeps the points of one resolution, in order of time. The first point may be older than keep: it holds the state since then.
type tier struct {
	slot, retention time.Duration
	points          []Point
}

// observe records a sample. A time before the last point is treated as the time of that point, because clocks can be set back.
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

// lowest returns the lowest number of available pods before and including a sample. Unknown numbers are ignored.
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

// addDenials records denials at a time that may be in the past.
func (t *tier) addDenials(at time.Time, removals int32) {
	slot := at.Truncate(t.slot)
	i, found := slices.BinarySearchFunc(t.points, slot, func(p Point, at time.Time) int { return p.At.Compare(at) })
	if !found {
		point := Point{At: slot}
		if i > 0 {
			point.Last, point.Lowest = t.points[i-1].Last, t.points[i-1].Last.Available
		}
		t.points = slices.Insert(t.points, i, point)
	}
	t.points[i].Denied += removals
}

// trim drops points older than keep. The last point before that time remains as the state since then, without its other data.
func (t *tier) trim(now time.Time, keep time.Duration) {
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
		old.Denied, old.Lowest = 0, old.Last.Available
	}
}

func (t *tier) last() *Point {
	if len(t.points) == 0 {
		return nil
	}
	return &t.points[len(t.points)-1]
}

// Package history records how the numbers of protectors change: per second for the last 15 minutes, and per 30 seconds for the last day.
// A number that does not change uses no space.
//
// It is pure: it takes values and a time, and returns values.
package history

import (
	"slices"
	"time"
)

// Resolutions and retention times.
const (
	FineSlot   = time.Second
	FineKeep   = 15 * time.Minute
	CoarseSlot = 30 * time.Second
	CoarseKeep = 24 * time.Hour
)

// Series is the history of one protector. Use New.
type Series struct {
	fine, coarse tier
	// began is the time of the first known sample.
	began time.Time
}

// New returns an empty Series.
func New() *Series {
	return &Series{fine: tier{slot: FineSlot, retention: FineKeep}, coarse: tier{slot: CoarseSlot, retention: CoarseKeep}}
}

// Observe records the current numbers.
func (s *Series) Observe(now time.Time, sample Sample) {
	if s.began.IsZero() && sample.Known {
		s.began = now
	}
	s.fine.observe(now, sample)
	s.coarse.observe(now, sample)
	s.trim(now, CoarseKeep)
}

// restore adds saved points to an empty Series, also to the fine resolution.
func (s *Series) restore(now, saved time.Time, points []Point) {
	slices.SortStableFunc(points, func(a, b Point) int { return a.At.Compare(b.At) })
	s.fine.points, s.coarse.points = slices.Clone(points), slices.Clone(points)
	if first := slices.IndexFunc(points, func(p Point) bool { return p.Last.Known }); first >= 0 {
		s.began = points[first].At
	}
	if saved.After(now) {
		saved = now // the clock was set back
	}
	s.Observe(saved, Sample{})
}

// AddDenials records denied removals at a time that may be in the past. It ignores times before the retention time.
func (s *Series) AddDenials(now, at time.Time, removals int32) {
	if at.After(now) {
		at = now
	}
	if now.Sub(at) < FineKeep {
		s.fine.addDenials(at, removals)
	}
	if now.Sub(at) < CoarseKeep {
		s.coarse.addDenials(at, removals)
	}
	s.trim(now, CoarseKeep)
}

// trim drops points older than keep.
func (s *Series) trim(now time.Time, keep time.Duration) {
	s.fine.trim(now, min(keep, FineKeep))
	s.coarse.trim(now, keep)
	if horizon := now.Add(-keep); !s.began.IsZero() && s.began.Before(horizon) {
		s.began = horizon
	}
}

// Points returns the points of the window up to now, in order, in the finest resolution that covers the window. The first point holds
// the state at the beginning of the window.
func (s *Series) Points(now time.Time, window time.Duration) []Point {
	from := &s.fine
	if window > FineKeep {
		from = &s.coarse
	}
	copied := tier{slot: from.slot, points: slices.Clone(from.points)}
	copied.trim(now, window)
	if len(copied.points) > 0 && copied.points[0].At.Before(now.Add(-window)) {
		copied.points[0].At = now.Add(-window)
	}
	return copied.points
}

// Since returns the time since which the Series has data; zero if it has none.
func (s *Series) Since() time.Time { return s.began }

// Size returns the number of points.
func (s *Series) Size() int { return len(s.fine.points) + len(s.coarse.points) }

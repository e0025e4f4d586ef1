package history

import (
	"slices"
	"time"
)

// What is kept, and how finely.
const (
	FineSlot   = time.Second
	FineKeep   = 15 * time.Minute
	CoarseSlot = 30 * time.Second
	CoarseKeep = 24 * time.Hour
)

// Series is the past of one protector. Use New.
type Series struct {
	fine, coarse tier
	// began is when something was known first.
	began time.Time
}

// New returns a series that knows nothing.
func New() *Series {
	return &Series{fine: tier{slot: FineSlot, keep: FineKeep}, coarse: tier{slot: CoarseSlot, keep: CoarseKeep}}
}

// Observe takes in what is known now.
func (s *Series) Observe(now time.Time, sample Sample) {
	if s.began.IsZero() && sample.Known {
		s.began = now
	}
	s.fine.observe(now, sample)
	s.coarse.observe(now, sample)
	s.trim(now, CoarseKeep)
}

// Refuse notes that removals were refused at a time, which may have passed: what is older than is kept is left out.
func (s *Series) Refuse(now, at time.Time, removals int32) {
	if at.After(now) {
		at = now
	}
	if now.Sub(at) < FineKeep {
		s.fine.refuse(at, removals)
	}
	if now.Sub(at) < CoarseKeep {
		s.coarse.refuse(at, removals)
	}
	s.trim(now, CoarseKeep)
}

// trim forgets what is older than is to be kept.
func (s *Series) trim(now time.Time, keep time.Duration) {
	s.fine.forget(now, min(keep, FineKeep))
	s.coarse.forget(now, keep)
	if horizon := now.Add(-keep); !s.began.IsZero() && s.began.Before(horizon) {
		s.began = horizon
	}
}

// Points are the points of the last window up to now, in order, as fine as they are kept for so long. The first one tells what was
// known when the window began.
func (s *Series) Points(now time.Time, window time.Duration) []Point {
	from := &s.fine
	if window > FineKeep {
		from = &s.coarse
	}
	copied := tier{slot: from.slot, points: slices.Clone(from.points)}
	copied.forget(now, window)
	if len(copied.points) > 0 && copied.points[0].At.Before(now.Add(-window)) {
		copied.points[0].At = now.Add(-window)
	}
	return copied.points
}

// Since is since when something is known; zero when nothing is.
func (s *Series) Since() time.Time { return s.began }

// Size is the number of points that are kept.
func (s *Series) Size() int { return len(s.fine.points) + len(s.coarse.points) }

// Now is what is known at last.
func (s *Series) Now() Sample {
	if last := s.coarse.last(); last != nil {
		return last.Last
	}
	return Sample{}
}

package history

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// deletedRetention is how long the history of a deleted protector is kept. A protector that is created again within it continues its
// history.
const deletedRetention = time.Hour

// minRetention is the minimum duration that Histories keeps, however many points there are.
const minRetention = time.Minute

// Histories keeps the histories of many protectors, by a key of the caller. If there are too many points in total, it shortens every history.
// It is not safe for concurrent use.
type Histories[Key comparable] struct {
	maxPoints int
	retention time.Duration
	series    map[Key]*Series
	deleted   map[Key]time.Time
	points    int
}

// NewHistories returns empty Histories of at most most points. It can exceed the limit if there are more protectors than that, or if all of
// them change every second.
func NewHistories[Key comparable](most int) *Histories[Key] {
	return &Histories[Key]{maxPoints: most, retention: CoarseKeep, series: map[Key]*Series{}, deleted: map[Key]time.Time{}}
}

// Observe records the current numbers of a protector.
func (b *Histories[Key]) Observe(key Key, now time.Time, sample Sample) {
	delete(b.deleted, key)
	b.update(key, now, func(s *Series) { s.Observe(now, sample) })
}

// AddDenials records denied removals of a protector. The protector need not have been observed.
func (b *Histories[Key]) AddDenials(key Key, now, at time.Time, removals int32) {
	if b.series[key] == nil {
		b.deleted[key] = now
	}
	b.update(key, now, func(s *Series) { s.AddDenials(now, at, removals) })
}

// MarkDeleted records that a protector was deleted.
func (b *Histories[Key]) MarkDeleted(key Key, now time.Time) {
	if b.series[key] == nil {
		return
	}
	b.deleted[key] = now
	b.update(key, now, func(s *Series) { s.Observe(now, Sample{}) })
}

func (b *Histories[Key]) update(key Key, now time.Time, update func(*Series)) {
	s := b.series[key]
	if s == nil {
		s = New()
		b.series[key] = s
	}
	b.points -= s.Size()
	update(s)
	s.trim(now, b.retention)
	b.points += s.Size()
	for b.points > b.maxPoints && b.retention > minRetention {
		b.retention = max(b.retention/2, minRetention)
		b.Sweep(now)
	}
}

// Restore adds points that were saved at a time. What happened between then and now is unknown. A protector that is not observed again is
// dropped like a deleted one.
func (b *Histories[Key]) Restore(key Key, now, saved time.Time, points []Point) {
	b.deleted[key] = now
	b.update(key, now, func(s *Series) { s.restore(now, saved, points) })
}

// All returns copies of the points of all protectors, in the coarse resolution.
func (b *Histories[Key]) All() iter.Seq2[Key, []Point] {
	return func(yield func(Key, []Point) bool) {
		for key, s := range b.series {
			if !yield(key, slices.Clone(s.coarse.points)) {
				return
			}
		}
	}
}

// Sweep drops old points and the histories of protectors that were deleted long ago. Call it periodically: histories that no longer
// change are not trimmed otherwise.
func (b *Histories[Key]) Sweep(now time.Time) {
	maps.DeleteFunc(b.deleted, func(key Key, since time.Time) bool {
		if now.Sub(since) < deletedRetention {
			return false
		}
		delete(b.series, key)
		return true
	})
	b.points = 0
	for _, s := range b.series {
		s.trim(now, b.retention)
		b.points += s.Size()
	}
	if b.points < b.maxPoints/4 {
		b.retention = min(b.retention*2, CoarseKeep)
	}
}

// Of returns the history of a protector, or nil. It is valid until the next call.
func (b *Histories[Key]) Of(key Key) *Series { return b.series[key] }

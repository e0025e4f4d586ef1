package history

import (
	"maps"
	"time"
)

// gonePatience is how long the history of a deleted protector is kept. A protector that is created again within it continues its
// history.
const gonePatience = time.Hour

// shortest is the minimum duration that Book keeps, however many points there are.
const shortest = time.Minute

// Book keeps the histories of many protectors, by a key of the caller. If there are too many points in total, it shortens every history.
// It is not safe for concurrent use.
type Book[Key comparable] struct {
	most   int
	keep   time.Duration
	series map[Key]*Series
	gone   map[Key]time.Time
	points int
}

// NewBook returns an empty Book of at most most points. It can exceed the limit if there are more protectors than that, or if all of
// them change every second.
func NewBook[Key comparable](most int) *Book[Key] {
	return &Book[Key]{most: most, keep: CoarseKeep, series: map[Key]*Series{}, gone: map[Key]time.Time{}}
}

// Observe records the current numbers of a protector.
func (b *Book[Key]) Observe(key Key, now time.Time, sample Sample) {
	delete(b.gone, key)
	b.change(key, now, func(s *Series) { s.Observe(now, sample) })
}

// Refuse records denied removals of a protector. The protector need not have been observed.
func (b *Book[Key]) Refuse(key Key, now, at time.Time, removals int32) {
	if b.series[key] == nil {
		b.gone[key] = now
	}
	b.change(key, now, func(s *Series) { s.Refuse(now, at, removals) })
}

// End records that a protector was deleted.
func (b *Book[Key]) End(key Key, now time.Time) {
	if b.series[key] == nil {
		return
	}
	b.gone[key] = now
	b.change(key, now, func(s *Series) { s.Observe(now, Sample{}) })
}

func (b *Book[Key]) change(key Key, now time.Time, change func(*Series)) {
	s := b.series[key]
	if s == nil {
		s = New()
		b.series[key] = s
	}
	b.points -= s.Size()
	change(s)
	s.trim(now, b.keep)
	b.points += s.Size()
	for b.points > b.most && b.keep > shortest {
		b.keep = max(b.keep/2, shortest)
		b.Sweep(now)
	}
}

// Sweep drops old points and the histories of protectors that were deleted long ago. Call it periodically: histories that no longer
// change are not trimmed otherwise.
func (b *Book[Key]) Sweep(now time.Time) {
	maps.DeleteFunc(b.gone, func(key Key, since time.Time) bool {
		if now.Sub(since) < gonePatience {
			return false
		}
		delete(b.series, key)
		return true
	})
	b.points = 0
	for _, s := range b.series {
		s.trim(now, b.keep)
		b.points += s.Size()
	}
	if b.points < b.most/4 {
		b.keep = min(b.keep*2, CoarseKeep)
	}
}

// Of returns the history of a protector, or nil. It is valid until the next call.
func (b *Book[Key]) Of(key Key) *Series { return b.series[key] }

// Keep returns how much history is kept, at most CoarseKeep.
func (b *Book[Key]) Keep() time.Duration { return b.keep }

// Points returns the total number of points.
func (b *Book[Key]) Points() int { return b.points }

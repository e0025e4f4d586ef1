package history

import (
	"maps"
	"time"
)

// gonePatience is how long the past of a protector is kept that is gone: one that comes back goes on with it.
const gonePatience = time.Hour

// shortest is the least that is kept of all, however many points there are.
const shortest = time.Minute

// Book keeps the pasts of many protectors, by a name of the caller's. When they have too many points together, less of the past is
// kept of each. It is not for several goroutines at once.
type Book[Key comparable] struct {
	most   int
	keep   time.Duration
	series map[Key]*Series
	gone   map[Key]time.Time
	points int
}

// NewBook returns an empty one, of at most so many points, unless there are more protectors than that, or all change each second.
func NewBook[Key comparable](most int) *Book[Key] {
	return &Book[Key]{most: most, keep: CoarseKeep, series: map[Key]*Series{}, gone: map[Key]time.Time{}}
}

// Observe takes in what is known of a protector now.
func (b *Book[Key]) Observe(key Key, now time.Time, sample Sample) {
	delete(b.gone, key)
	b.change(key, now, func(s *Series) { s.Observe(now, sample) })
}

// Refuse notes that removals were refused in the name of a protector, of which nothing else need be known.
func (b *Book[Key]) Refuse(key Key, now, at time.Time, removals int32) {
	if b.series[key] == nil {
		b.gone[key] = now
	}
	b.change(key, now, func(s *Series) { s.Refuse(now, at, removals) })
}

// End notes that a protector is gone.
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

// Sweep forgets what is old, and protectors that are gone for long. Call it now and then: what changes no more is not looked at
// otherwise.
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

// Of is the past of a protector; nil when there is none. It is good until the next call.
func (b *Book[Key]) Of(key Key) *Series { return b.series[key] }

// Keep is how much of the past is kept, of as much as CoarseKeep.
func (b *Book[Key]) Keep() time.Duration { return b.keep }

// Points is how many there are in all.
func (b *Book[Key]) Points() int { return b.points }

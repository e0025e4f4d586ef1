package history

import "time"

// Retention returns how much history is kept.
func (b *Histories[Key]) Retention() time.Duration { return b.retention }

// Points returns the total number of points.
func (b *Histories[Key]) Points() int { return b.points }

// Latest returns the last sample.
func (s *Series) Latest() Sample {
	if last := s.coarse.last(); last != nil {
		return last.Last
	}
	return Sample{}
}

package clusters

import "time"

// Remembered returns the number of own writes that are kept.
func (s *Protectors) Remembered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.written)
}

// Hurry makes a follower read its file often.
func (f *Follower) Hurry() { f.every = 20 * time.Millisecond }

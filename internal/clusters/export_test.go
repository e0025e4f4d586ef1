package clusters

import "time"

// OwnWrites returns the number of own writes that are kept.
func (s *Protectors) OwnWrites() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.written)
}

// SetInterval makes a reloader read its file often.
func (r *KubeconfigReloader) SetInterval() { r.interval = 20 * time.Millisecond }

package fleet

// Remembered is the number of own writes that are kept.
func (s *Protectors) Remembered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.written)
}

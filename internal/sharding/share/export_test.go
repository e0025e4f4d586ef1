package share

// Poked tells whether it has yet to look since it was poked last.
func (s *Share) Poked() bool { return len(s.poke) > 0 }

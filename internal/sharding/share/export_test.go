package share

// Poked reports whether a call of Poke is still pending.
func (s *Share) Poked() bool { return len(s.poke) > 0 }

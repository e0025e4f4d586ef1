package share

// CheckRequested reports whether a call of Poke is still pending.
func (s *Share) CheckRequested() bool { return len(s.checkRequests) > 0 }

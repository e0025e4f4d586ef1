package ownership

// CheckRequested reports whether a call of Poke is still pending.
func (s *Slots) CheckRequested() bool { return len(s.checkRequests) > 0 }

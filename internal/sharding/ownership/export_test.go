package ownership

// CheckRequested reports whether a call of RequestCheck is still pending.
func (s *Slots) CheckRequested() bool { return len(s.checkRequests) > 0 }

package proxy

import (
	"sync"
	"time"
)

// fault is what a direction suffers.
type fault struct {
	delay   time.Duration
	stalled bool
	cut     bool
}

// lane holds the fault of one direction and tells those who wait when it changes.
type lane struct {
	mu      sync.Mutex
	now     fault
	changed chan struct{} // closed and replaced at each change
}

func newLane() *lane { return &lane{changed: make(chan struct{})} }

func (l *lane) change(apply func(*fault)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	apply(&l.now)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *lane) current() (fault, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now, l.changed
}

// pass waits until what is due at that time may go on. It is false when the direction was cut or the connection
// is over.
func (l *lane) pass(due time.Time, over <-chan struct{}) bool {
	for {
		now, changed := l.current()
		if now.cut {
			return false
		}
		var timer <-chan time.Time
		if !now.stalled {
			wait := time.Until(due)
			if wait <= 0 {
				return true
			}
			timer = time.After(wait)
		}
		select {
		case <-over:
			return false
		case <-changed:
		case <-timer:
		}
	}
}

package proxy

import (
	"sync"
	"time"
)

// fault is the fault of a direction.
type fault struct {
	delay   time.Duration
	stalled bool
	cut     bool
}

// lane holds the fault of one direction and notifies waiters of changes.
type lane struct {
	mu      sync.Mutex
	state   fault
	changed chan struct{} // closed and replaced at each change
}

func newLane() *lane { return &lane{changed: make(chan struct{})} }

func (l *lane) change(apply func(*fault)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	apply(&l.state)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *lane) current() (fault, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, l.changed
}

// wait waits until data that is due at that time may be sent. It returns false if the direction was cut or the
// connection has ended.
func (l *lane) wait(due time.Time, ended <-chan struct{}) bool {
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
		case <-ended:
			return false
		case <-changed:
		case <-timer:
		}
	}
}

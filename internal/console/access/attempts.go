package access

import (
	"maps"
	"sync"
	"time"
)

// maxClients is the maximum number of clients to remember.
const maxClients = 10_000

// Attempts limits how often a client may try tokens that turn out to be invalid: burst times at once, and then once per pause. Use
// NewAttempts.
type Attempts struct {
	now      func() time.Time
	burst    int
	interval time.Duration

	mu  sync.Mutex
	all map[string]failures
}

// failures is the number of failed attempts at a time. It decreases by one after each pause.
type failures struct {
	count int
	at    time.Time
}

// NewAttempts returns Attempts without any failures.
func NewAttempts(burst int, pause time.Duration, now func() time.Time) *Attempts {
	return &Attempts{now: now, burst: burst, interval: pause, all: map[string]failures{}}
}

// Begin reports whether a client may try a token. The attempt counts as failed until Undo.
func (a *Attempts) Begin(who string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) >= maxClients {
		maps.DeleteFunc(a.all, func(_ string, f failures) bool { return a.remaining(f).count == 0 })
	}
	f, known := a.all[who]
	if f = a.remaining(f); f.count >= a.burst || !known && len(a.all) >= maxClients {
		return false
	}
	f.count++
	a.all[who] = f
	return true
}

// Undo takes back a successful attempt.
func (a *Attempts) Undo(who string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.remaining(a.all[who])
	f.count = max(f.count-1, 0)
	a.all[who] = f
}

func (a *Attempts) remaining(f failures) failures {
	now := a.now()
	pauses := int(now.Sub(f.at) / a.interval)
	if f.count == 0 || pauses >= f.count {
		return failures{at: now}
	}
	return failures{count: f.count - pauses, at: f.at.Add(time.Duration(pauses) * a.interval)}
}

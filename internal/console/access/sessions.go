package access

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

// Session is a browser that is signed in. Its token is kept in memory alone, and never sent back.
type Session struct {
	Token string

	opened, seen time.Time
	ended        chan struct{}
}

// Ended is closed when the session is.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// Sessions are those of all browsers. Use NewSessions.
type Sessions struct {
	now            func() time.Time
	idle, lifetime time.Duration
	most           int

	mu  sync.Mutex
	all map[[sha256.Size]byte]*Session // by a hash of the id, so that the time of a look-up tells nothing of ids
}

// NewSessions returns none. One ends that was idle for so long, or is so old, or was idle for longest when there are too many.
func NewSessions(idle, lifetime time.Duration, most int, now func() time.Time) *Sessions {
	return &Sessions{now: now, idle: idle, lifetime: lifetime, most: most, all: map[[sha256.Size]byte]*Session{}}
}

// Open makes a session and returns its id, which nobody can guess.
func (s *Sessions) Open(token string) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	for len(s.all) >= s.most {
		s.endIdlest()
	}
	id, now := rand.Text()+rand.Text(), s.now()
	s.all[sha256.Sum256([]byte(id))] = &Session{Token: token, opened: now, seen: now, ended: make(chan struct{})}
	return id
}

// Find returns a session that has not ended; nil if there is none. Only what somebody does keeps it from being idle, which active
// says: a page that renews itself does not.
func (s *Sessions) Find(id string, active bool) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	found := s.all[sha256.Sum256([]byte(id))]
	if found != nil && active {
		found.seen = s.now()
	}
	return found
}

// Close ends a session.
func (s *Sessions) Close(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(sha256.Sum256([]byte(id)))
}

// Count is how many there are.
func (s *Sessions) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	return len(s.all)
}

func (s *Sessions) sweep() {
	now := s.now()
	for key, session := range s.all {
		if now.Sub(session.seen) >= s.idle || now.Sub(session.opened) >= s.lifetime {
			s.end(key)
		}
	}
}

func (s *Sessions) endIdlest() {
	var idlest [sha256.Size]byte
	var since time.Time
	for key, session := range s.all {
		if since.IsZero() || session.seen.Before(since) {
			idlest, since = key, session.seen
		}
	}
	s.end(idlest)
}

func (s *Sessions) end(key [sha256.Size]byte) {
	if session := s.all[key]; session != nil {
		close(session.ended)
		delete(s.all, key)
	}
}

package access

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

// ErrFull is the error of a sign-in while as many users are signed in as there may be sessions.
var ErrFull = errors.New("too many users are signed in")

// Session is a browser that is signed in. Its token is kept in memory alone, and never sent back.
type Session struct {
	Token string

	user         string
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

// NewSessions returns none. One ends that was idle for so long, or is so old. When there are too many, the user who has most of them loses
// the one that was idle for longest: the sign-ins of one user do not end the sessions of others.
func NewSessions(idle, lifetime time.Duration, most int, now func() time.Time) *Sessions {
	return &Sessions{now: now, idle: idle, lifetime: lifetime, most: most, all: map[[sha256.Size]byte]*Session{}}
}

// Open makes a session of a user and returns its id, which no client can guess. An error is ErrFull.
func (s *Sessions) Open(user, token string) (id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	for len(s.all) >= s.most {
		most, ok := s.userWithMost(user)
		if !ok {
			return "", ErrFull
		}
		s.endIdlest(most)
	}
	id, now := rand.Text()+rand.Text(), s.now()
	s.all[sha256.Sum256([]byte(id))] = &Session{Token: token, user: user, opened: now, seen: now, ended: make(chan struct{})}
	return id, nil
}

// userWithMost is the user with most sessions, counting the one that another user is about to open; ok is false if all have one.
func (s *Sessions) userWithMost(opening string) (user string, ok bool) {
	count := map[string]int{opening: 1}
	for _, session := range s.all {
		count[session.user]++
	}
	user = opening
	for other, n := range count {
		if n > count[user] {
			user = other
		}
	}
	return user, count[user] > 1
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

func (s *Sessions) endIdlest(user string) {
	var idlest [sha256.Size]byte
	var since time.Time
	for key, session := range s.all {
		if session.user == user && (since.IsZero() || session.seen.Before(since)) {
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

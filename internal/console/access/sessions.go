package access

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

// ErrTooManyUsers is the error of a sign-in if the number of signed-in users has reached the maximum number of sessions.
var ErrTooManyUsers = errors.New("too many users are signed in")

// Session is a signed-in browser. Its token, or several for several cores, is kept in memory only and never sent back.
type Session struct {
	Token string

	// identity is that of the user of a local console, who has no token. Otherwise it is nil.
	identity           *Identity
	user               string
	opened, lastActive time.Time
	ended              chan struct{}
}

// Ended returns a channel that is closed when the session ends.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// Sessions are the sessions of all browsers. Use NewSessions.
type Sessions struct {
	now            func() time.Time
	idle, lifetime time.Duration
	max            int

	mu  sync.Mutex
	all map[[sha256.Size]byte]*Session // by a hash of the ID, so that lookup times reveal nothing about IDs
}

// NewSessions returns empty Sessions. A session ends after the idle time or at the end of its lifetime. If there are too many sessions,
// the user with the most sessions loses the one that was idle for longest: the sign-ins of one user do not end the sessions of others.
func NewSessions(idle, lifetime time.Duration, most int, now func() time.Time) *Sessions {
	return &Sessions{now: now, idle: idle, lifetime: lifetime, max: most, all: map[[sha256.Size]byte]*Session{}}
}

// Open creates a session for a user and returns its random ID. The user has a token, or an identity of its own. The error is ErrTooManyUsers.
func (s *Sessions) Open(user, token string, identity *Identity) (id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	for len(s.all) >= s.max {
		most, ok := s.userWithMost(user)
		if !ok {
			return "", ErrTooManyUsers
		}
		s.endLeastRecent(most)
	}
	id, now := rand.Text()+rand.Text(), s.now()
	s.all[sha256.Sum256([]byte(id))] = &Session{Token: token, identity: identity, user: user, opened: now, lastActive: now, ended: make(chan struct{})}
	return id, nil
}

// userWithMost returns the user with the most sessions, including the one about to be opened. ok is false if every user has one.
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

// Find returns a session that has not ended, or nil. If active is true, the session's idle time starts again. A page that refreshes
// itself is not active.
func (s *Sessions) Find(id string, active bool) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	found := s.all[sha256.Sum256([]byte(id))]
	if found != nil && active {
		found.lastActive = s.now()
	}
	return found
}

// Close ends a session.
func (s *Sessions) Close(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(sha256.Sum256([]byte(id)))
}

// Count returns the number of sessions.
func (s *Sessions) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	return len(s.all)
}

func (s *Sessions) sweep() {
	now := s.now()
	for key, session := range s.all {
		if now.Sub(session.lastActive) >= s.idle || now.Sub(session.opened) >= s.lifetime {
			s.end(key)
		}
	}
}

func (s *Sessions) endLeastRecent(user string) {
	var idlest [sha256.Size]byte
	var since time.Time
	for key, session := range s.all {
		if session.user == user && (since.IsZero() || session.lastActive.Before(since)) {
			idlest, since = key, session.lastActive
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

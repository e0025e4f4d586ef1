package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"time"
)

// localPrefix is the path of the link that signs in the user of a local console.
const localPrefix = "/local/"

// Local is a console for one user of this machine, who sees what the client configurations of the cores may read. Use NewLocal.
type Local struct {
	// Listener accepts the connections. It listens on the loopback address.
	Listener net.Listener
	// User is the name of the user on the page.
	User string
	// Ready, if set, is called when the console has the data of a core, or has tried to get them for some seconds.
	Ready func()

	secret string
}

// NewLocal listens on a port of 127.0.0.1; 0 selects a free one.
func NewLocal(address, user string) (*Local, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return &Local{Listener: listener, User: user, secret: rand.Text()}, nil
}

// URL returns the link that signs the user in. It has a secret: other users of the machine could open the page with it.
func (l *Local) URL() string { return "http://" + l.Listener.Addr().String() + localPrefix + l.secret }

// signInLocally opens a session for a browser that has the secret link.
func (s *server) signInLocally(w http.ResponseWriter, r *http.Request) {
	given, want := sha256.Sum256([]byte(r.PathValue("secret"))), sha256.Sum256([]byte(s.options.Local.secret))
	if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
		s.writeProblem(w, r, notSignedInLocally())
		return
	}
	cookie, err := s.gate.SignInLocally(r, s.options.Local.User)
	if err != nil {
		s.writeProblem(w, r, s.problemOf(err))
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// reportReady calls Ready, unless ctx ends before.
func (s *server) reportReady(ctx context.Context) {
	const interval, attempts = 50 * time.Millisecond, 100
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for range attempts {
		if s.ready(nil) == nil {
			break
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
	s.options.Local.Ready()
}

func notSignedInLocally() problem {
	return problem{http.StatusUnauthorized, "You are not signed in", "Open the link that kubectl breakwater console printed."}
}

// onlyOwnHost denies requests to a local console under another name than its address. Otherwise a page of another site whose name resolves to the
// loopback address could read the console.
func (s *server) onlyOwnHost(next http.Handler) http.Handler {
	if s.options.Local == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != s.options.Local.Listener.Addr().String() {
			http.Error(w, "This is not the address of the console.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

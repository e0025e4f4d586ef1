package access

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Cookie is the name of the cookie with the session ID. Browsers accept it only over TLS, and only for this host.
const Cookie = "__Host-breakwater-session"

// allClientsKey is the key that counts attempts from all addresses together.
const allClientsKey = ""

// ErrTooManyAttempts means that clients have tried too many invalid tokens.
var ErrTooManyAttempts = errors.New("the API server rejected too many tokens: wait a minute")

// Gate authenticates visitors. Use NewGate.
type Gate struct {
	Reviews  *Reviews
	Sessions *Sessions
	// perClient limits attempts per address, allClients those from all addresses.
	perClient, allClients *Attempts
}

// Visitor is an authenticated user.
type Visitor struct {
	User Identity
	// Session is the browser's session. It is nil if the client sends a token with each request.
	Session *Session

	token   string
	reviews *Reviews
}

// NewGate returns a Gate that allows ten invalid tokens from an address at once, and then one every six seconds. From all addresses
// together it allows ten times as many.
func NewGate(reviews *Reviews, sessions *Sessions, now func() time.Time) *Gate {
	return &Gate{
		Reviews: reviews, Sessions: sessions,
		perClient: NewAttempts(10, 6*time.Second, now), allClients: NewAttempts(100, 600*time.Millisecond, now),
	}
}

// Admit authenticates a request by its bearer token or its session. active reports whether the user acts, in contrast to a page that
// refreshes itself. The error is ErrUnauthenticated, ErrTooManyAttempts, or a failure of the API server to answer.
func (g *Gate) Admit(r *http.Request, active bool) (*Visitor, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		kind, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(kind, "Bearer") {
			return nil, ErrUnauthenticated
		}
		return g.admitToken(r, strings.TrimSpace(token))
	}
	cookie, err := r.Cookie(Cookie)
	if err != nil {
		return nil, ErrUnauthenticated
	}
	session := g.Sessions.Find(cookie.Value, active)
	if session == nil {
		return nil, ErrUnauthenticated
	}
	who, err := g.Reviews.Authenticate(r.Context(), session.Token)
	if errors.Is(err, ErrUnauthenticated) {
		g.Sessions.Close(cookie.Value)
	}
	if err != nil {
		return nil, err
	}
	return &Visitor{User: who, Session: session, token: session.Token, reviews: g.Reviews}, nil
}

// admitToken admits a client with a token that the API server accepts. A token that it has not accepted before counts as an attempt, and as a
// failure if it is invalid.
func (g *Gate) admitToken(r *http.Request, token string) (*Visitor, error) {
	who, err := g.review(r, token)
	if err != nil {
		return nil, err
	}
	return &Visitor{User: who, token: token, reviews: g.Reviews}, nil
}

func (g *Gate) review(r *http.Request, token string) (Identity, error) {
	if g.Reviews.IsAccepted(token) {
		return g.Reviews.Authenticate(r.Context(), token)
	}
	from := client(r)
	if !g.perClient.Begin(from) {
		return Identity{}, ErrTooManyAttempts
	}
	if !g.allClients.Begin(allClientsKey) {
		g.perClient.Undo(from)
		return Identity{}, ErrTooManyAttempts
	}
	who, err := g.Reviews.AuthenticateFirst(r.Context(), token)
	if !errors.Is(err, ErrUnauthenticated) { // the client did not cause the API server's failure
		g.perClient.Undo(from)
		g.allClients.Undo(allClientsKey)
	}
	return who, err
}

// client returns the key under which attempts count: an IPv4 address, or the first 64 bits of an IPv6 address, because one client can
// use all addresses of a /64 network.
func client(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	address := from.Addr().Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	return netip.PrefixFrom(address, 64).Masked().String()
}

// SignIn opens a session for a token and returns its cookie. Errors are those of Admit, and ErrTooManyUsers.
func (g *Gate) SignIn(r *http.Request, token string) (*http.Cookie, error) {
	visitor, err := g.admitToken(r, token)
	if err != nil {
		return nil, err
	}
	// The previous session of the browser is no longer needed. The new ID is random, which prevents session fixation.
	g.SignOut(r)
	id, err := g.Sessions.Open(visitor.User.Name, token)
	if err != nil {
		return nil, err
	}
	return cookie(id, 0), nil
}

// SignOut ends the session of a request, if it has one, and returns a cookie that deletes the browser's cookie.
func (g *Gate) SignOut(r *http.Request) *http.Cookie {
	if old, err := r.Cookie(Cookie); err == nil {
		g.Sessions.Close(old.Value)
	}
	return cookie("", -1)
}

func cookie(value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: Cookie, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

// Revalidate returns an error if Admit would no longer admit the visitor. Errors are those of Admit.
func (v *Visitor) Revalidate(ctx context.Context) error {
	if v.Session != nil {
		select {
		case <-v.Session.Ended():
			return ErrUnauthenticated
		default:
		}
	}
	_, err := v.reviews.Authenticate(ctx, v.token)
	return err
}

package access

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Cookie is the name of that with a session's id. Browsers take it by TLS alone, for this host alone.
const Cookie = "__Host-breakwater-session"

// everybody is whom attempts are counted for besides each address.
const everybody = ""

// ErrTooMany tells that too many tokens were tried that were wrong.
var ErrTooMany = errors.New("too many tokens were tried that the apiserver does not accept: wait a minute")

// Gate lets visitors in. Use NewGate.
type Gate struct {
	Reviews  *Reviews
	Sessions *Sessions
	// ofOne are attempts from one address, ofAll those from all.
	ofOne, ofAll *Attempts
}

// Visitor is somebody whom the apiserver knows.
type Visitor struct {
	Who Identity
	// Session is that of the browser; nil for one who brings a token with each request.
	Session *Session

	token   string
	reviews *Reviews
}

// NewGate returns one that lets ten wrong tokens from an address be tried at once, and then one in six seconds; ten times as many from all.
func NewGate(reviews *Reviews, sessions *Sessions, now func() time.Time) *Gate {
	return &Gate{
		Reviews: reviews, Sessions: sessions,
		ofOne: NewAttempts(10, 6*time.Second, now), ofAll: NewAttempts(100, 600*time.Millisecond, now),
	}
}

// Admit returns who asks, by the token of the request or by its session. active tells that somebody does something, and not a page by
// itself. An error is ErrNobody, ErrTooMany, or that the apiserver gives no answer.
func (g *Gate) Admit(r *http.Request, active bool) (*Visitor, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		kind, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(kind, "Bearer") {
			return nil, ErrNobody
		}
		return g.try(r, strings.TrimSpace(token))
	}
	cookie, err := r.Cookie(Cookie)
	if err != nil {
		return nil, ErrNobody
	}
	session := g.Sessions.Find(cookie.Value, active)
	if session == nil {
		return nil, ErrNobody
	}
	who, err := g.Reviews.Who(r.Context(), session.Token)
	if errors.Is(err, ErrNobody) {
		g.Sessions.Close(cookie.Value)
	}
	if err != nil {
		return nil, err
	}
	return &Visitor{Who: who, Session: session, token: session.Token, reviews: g.Reviews}, nil
}

// try admits a client with a token that the API server accepts. A token that it did not accept before is an attempt, and counts when it is wrong.
func (g *Gate) try(r *http.Request, token string) (*Visitor, error) {
	who, err := g.review(r, token)
	if err != nil {
		return nil, err
	}
	return &Visitor{Who: who, token: token, reviews: g.Reviews}, nil
}

func (g *Gate) review(r *http.Request, token string) (Identity, error) {
	if g.Reviews.Known(token) {
		return g.Reviews.Who(r.Context(), token)
	}
	from := client(r)
	if !g.ofOne.Begin(from) {
		return Identity{}, ErrTooMany
	}
	if !g.ofAll.Begin(everybody) {
		g.ofOne.Forgive(from)
		return Identity{}, ErrTooMany
	}
	who, err := g.Reviews.First(r.Context(), token)
	if !errors.Is(err, ErrNobody) { // the client has not caused that the apiserver is unreachable
		g.ofOne.Forgive(from)
		g.ofAll.Forgive(everybody)
	}
	return who, err
}

// client is who a request counts for: an IPv4 address, or the first 64 bits of an IPv6 address, since one client has as many addresses as
// the rest has values.
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

// SignIn opens a session for a token, and gives the cookie for it. Errors are those of Admit.
func (g *Gate) SignIn(r *http.Request, token string) (*http.Cookie, error) {
	visitor, err := g.try(r, token)
	if err != nil {
		return nil, err
	}
	// The one that the browser had before is of no use any more, and the new id is one that nobody has seen.
	g.SignOut(r)
	id, err := g.Sessions.Open(visitor.Who.Name, token)
	if err != nil {
		return nil, err
	}
	return cookie(id, 0), nil
}

// SignOut ends the session of a request, if it has one, and gives the cookie that takes its cookie away.
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

// Still is an error when the visitor would not be admitted any more: those of Admit.
func (v *Visitor) Still(ctx context.Context) error {
	if v.Session != nil {
		select {
		case <-v.Session.Ended():
			return ErrNobody
		default:
		}
	}
	_, err := v.reviews.Who(ctx, v.token)
	return err
}

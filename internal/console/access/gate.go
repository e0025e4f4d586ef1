// Package access authenticates and authorizes the users of the console. It asks the API servers of the cores and caches the answers for a
// short time. It keeps browser sessions in memory only.
package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// Cookie is the name of the cookie with the session ID. Browsers accept it only over TLS, and only for this host.
const Cookie = "__Host-breakwater-session"

// loopbackCookie is the name of that cookie of a console that serves the loopback address without TLS. Browsers send it to all ports of the address.
const loopbackCookie = "breakwater-session"

// allClientsKey is the key that counts attempts from all addresses together.
const allClientsKey = ""

// ErrTooManyAttempts means that clients have tried too many invalid tokens.
var ErrTooManyAttempts = errors.New("the API server rejected too many tokens: wait a minute")

// Core is a core cluster that authenticates and authorizes visitors.
type Core struct {
	Name    string
	Reviews *Reviews
}

// Gate authenticates visitors. Use NewGate.
type Gate struct {
	cores    []Core
	Sessions *Sessions
	// Loopback reports whether the console serves the loopback address without TLS. Requests then have no bearer tokens.
	Loopback bool
	// perClient limits attempts per address, allClients those from all addresses.
	perClient, allClients *Attempts
}

// Visitor is an authenticated user.
type Visitor struct {
	// User is the identity of the user in the first core that accepts the user.
	User Identity
	// Session is the browser's session. It is nil if the client sends a token with each request.
	Session *Session

	token      string
	gate       *Gate
	identities identities
}

// identities are the identities of a visitor by core. Users of the same name in two cores can be different: a core knows a visitor only if
// its own API server has accepted the token.
type identities map[string]Identity

// NewGate returns a Gate of one or more cores that allows ten invalid tokens from an address at once, and then one every six seconds. From all addresses
// together it allows ten times as many.
func NewGate(cores []Core, sessions *Sessions, now func() time.Time) *Gate {
	return &Gate{
		cores: cores, Sessions: sessions,
		perClient: NewAttempts(10, 6*time.Second, now), allClients: NewAttempts(100, 600*time.Millisecond, now),
	}
}

// Admit authenticates a request by its bearer token or its session. active reports whether the user acts, in contrast to a page that
// refreshes itself. The error is ErrUnauthenticated, ErrTooManyAttempts, or a failure of the API server to answer.
func (g *Gate) Admit(r *http.Request, active bool) (*Visitor, error) {
	if header := r.Header.Get("Authorization"); header != "" && !g.Loopback {
		kind, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(kind, "Bearer") {
			return nil, ErrUnauthenticated
		}
		return g.admitToken(r, strings.TrimSpace(token))
	}
	cookie, err := r.Cookie(g.cookieName())
	if err != nil {
		return nil, ErrUnauthenticated
	}
	session := g.Sessions.Find(cookie.Value, active)
	if session == nil {
		return nil, ErrUnauthenticated
	}
	if session.identity != nil {
		return g.visitor(g.everywhere(*session.identity), "", session), nil
	}
	known, err := g.authenticate(r.Context(), session.Token, (*Reviews).Authenticate)
	if errors.Is(err, ErrUnauthenticated) {
		g.Sessions.Close(cookie.Value)
	}
	if err != nil {
		return nil, err
	}
	return g.visitor(known, session.Token, session), nil
}

func (g *Gate) visitor(known identities, token string, session *Session) *Visitor {
	v := &Visitor{Session: session, token: token, gate: g, identities: known}
	for _, core := range g.cores {
		if who, ok := known[core.Name]; ok {
			v.User = who
			break
		}
	}
	return v
}

// admitToken admits a client with a token that the API server accepts. A token that it has not accepted before counts as an attempt, and as a
// failure if it is invalid.
func (g *Gate) admitToken(r *http.Request, token string) (*Visitor, error) {
	known, err := g.review(r, token)
	if err != nil {
		return nil, err
	}
	return g.visitor(known, token, nil), nil
}

func (g *Gate) review(r *http.Request, token string) (identities, error) {
	if g.isAccepted(token) {
		return g.authenticate(r.Context(), token, (*Reviews).Authenticate)
	}
	undo, err := g.beginAttempt(r)
	if err != nil {
		return nil, err
	}
	known, err := g.authenticate(r.Context(), token, (*Reviews).AuthenticateFirst)
	if !errors.Is(err, ErrUnauthenticated) { // the client did not cause the API server's failure
		undo()
	}
	return known, err
}

// beginAttempt counts an attempt as failed until undo is called. The error is ErrTooManyAttempts.
func (g *Gate) beginAttempt(r *http.Request) (undo func(), err error) {
	from := client(r)
	if !g.perClient.Begin(from) {
		return nil, ErrTooManyAttempts
	}
	if !g.allClients.Begin(allClientsKey) {
		g.perClient.Undo(from)
		return nil, ErrTooManyAttempts
	}
	return func() {
		g.perClient.Undo(from)
		g.allClients.Undo(allClientsKey)
	}, nil
}

// everywhere returns an identity that holds in all cores.
func (g *Gate) everywhere(who Identity) identities {
	known := identities{}
	for _, core := range g.cores {
		known[core.Name] = who
	}
	return known
}

// askFunc is Authenticate or AuthenticateFirst of Reviews.
type askFunc func(r *Reviews, ctx context.Context, token string) (Identity, error)

// authenticate asks the cores about tokens, at most one for each core. The error is nil if at least one core accepts one of them,
// ErrUnauthenticated if all reject all, or a failure to answer.
func (g *Gate) authenticate(ctx context.Context, tokens string, ask askFunc) (identities, error) {
	all := strings.Fields(tokens)
	if len(all) > len(g.cores) {
		return nil, ErrUnauthenticated
	}
	known, failure := identities{}, ErrUnauthenticated
	for _, token := range all {
		var some identities
		var err error
		if isServiceAccount(token) {
			some, err = g.askInOrder(ctx, token, ask)
		} else {
			some, err = g.askAll(ctx, token, ask)
		}
		maps.Copy(known, some)
		if err != nil && !errors.Is(err, ErrUnauthenticated) {
			failure = err
		}
	}
	if len(known) == 0 {
		return nil, failure
	}
	return known, nil
}

// askInOrder asks the cores about the token of a ServiceAccount, which one of them has issued. The others must not get it: they could use it.
func (g *Gate) askInOrder(ctx context.Context, token string, ask askFunc) (identities, error) {
	for _, core := range g.cores {
		who, err := ask(core.Reviews, ctx, token)
		if err == nil {
			return identities{core.Name: who}, nil
		}
		if !errors.Is(err, ErrUnauthenticated) {
			return nil, err
		}
	}
	return nil, ErrUnauthenticated
}

// askAll asks all cores about the token of an identity provider, which several of them may trust.
func (g *Gate) askAll(ctx context.Context, token string, ask askFunc) (identities, error) {
	answers, failures := make([]Identity, len(g.cores)), make([]error, len(g.cores))
	var asking sync.WaitGroup
	for i, core := range g.cores {
		asking.Go(func() { answers[i], failures[i] = ask(core.Reviews, ctx, token) })
	}
	asking.Wait()
	known, failure := identities{}, ErrUnauthenticated
	for i, core := range g.cores {
		switch err := failures[i]; {
		case err == nil:
			known[core.Name] = answers[i]
		case !errors.Is(err, ErrUnauthenticated):
			failure = err
		}
	}
	return known, failure
}

// isAccepted reports whether none of the tokens is a guess.
func (g *Gate) isAccepted(tokens string) bool {
	for token := range strings.FieldsSeq(tokens) {
		if !slices.ContainsFunc(g.cores, func(c Core) bool { return c.Reviews.IsAccepted(token) }) {
			return false
		}
	}
	return true
}

// isServiceAccount reports whether a token claims to be that of a ServiceAccount. It does not verify the token.
func isServiceAccount(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	claims := struct {
		Subject string `json:"sub"`
	}{}
	return err == nil && json.Unmarshal(text, &claims) == nil && strings.HasPrefix(claims.Subject, "system:serviceaccount:")
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

// SignIn opens a session for a token, or several for several cores, separated by white space, and returns its cookie. Errors are
// those of Admit, and ErrTooManyUsers.
func (g *Gate) SignIn(r *http.Request, token string) (*http.Cookie, error) {
	visitor, err := g.admitToken(r, token)
	if err != nil {
		return nil, err
	}
	return g.open(r, visitor.User.Name, token, nil)
}

// SignInLocally opens a session without a token for the user of a local console, whom all cores know, and returns its cookie. The error is ErrTooManyUsers.
func (g *Gate) SignInLocally(r *http.Request, user string) (*http.Cookie, error) {
	who := identify(authenticationv1.UserInfo{Username: user})
	return g.open(r, user, "", &who)
}

func (g *Gate) open(r *http.Request, user, token string, identity *Identity) (*http.Cookie, error) {
	// The previous session of the browser is no longer needed. The new ID is random, which prevents session fixation.
	g.SignOut(r)
	id, err := g.Sessions.Open(user, token, identity)
	if err != nil {
		return nil, err
	}
	return g.cookie(id, 0), nil
}

// SignOut ends the session of a request, if it has one, and returns a cookie that deletes the browser's cookie.
func (g *Gate) SignOut(r *http.Request) *http.Cookie {
	if old, err := r.Cookie(g.cookieName()); err == nil {
		g.Sessions.Close(old.Value)
	}
	return g.cookie("", -1)
}

func (g *Gate) cookieName() string {
	if g.Loopback {
		return loopbackCookie
	}
	return Cookie
}

// cookie returns the cookie of a session. On the loopback address it is not Secure, since there is no TLS, and only Lax, since the user follows a link
// from a terminal or a file.
func (g *Gate) cookie(value string, age int) *http.Cookie {
	c := &http.Cookie{Name: g.cookieName(), Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if g.Loopback {
		c.Secure, c.SameSite = false, http.SameSiteLaxMode
	}
	return c
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
	if v.Session != nil && v.Session.identity != nil {
		return nil
	}
	_, err := v.gate.authenticate(ctx, v.token, (*Reviews).Authenticate)
	return err
}

// Knows reports whether a core has accepted the visitor.
func (v *Visitor) Knows(core string) bool {
	_, ok := v.identities[core]
	return ok
}

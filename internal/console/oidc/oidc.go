// Package oidc signs users in to the console with an OpenID Connect provider: the authorization code flow with PKCE, state and nonce.
package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/console/access"
)

const (
	// providerTimeout is how long the provider may take for one request.
	providerTimeout = 10 * time.Second
	// signInTimeout is how long a user may take to sign in at the provider.
	signInTimeout = 10 * time.Minute
)

var (
	// ErrRejected means that the provider did not sign the user in, or that its answer does not belong to a sign-in of this browser.
	ErrRejected = errors.New("the sign-in was rejected")
	// ErrUnavailable means that the provider does not answer, or the client secret cannot be read.
	ErrUnavailable = errors.New("the OIDC provider cannot be used now")
)

// Provider signs users in. Use New.
type Provider struct {
	options Options
	now     func() time.Time
	client  *http.Client
	sealer  *sealer

	mu sync.Mutex
	// discovered is the provider's configuration; nil until it has answered.
	discovered *gooidc.Provider
}

// New returns a Provider of valid options. It does not connect to it yet.
func New(options Options, now func() time.Time) (*Provider, error) {
	transport, err := rest.TransportFor(&rest.Config{Host: options.Issuer, TLSClientConfig: rest.TLSClientConfig{CAFile: options.CAFile}})
	if err != nil {
		return nil, fmt.Errorf("--oidc-ca-file: %w", err)
	}
	if _, err := options.secret(); err != nil {
		return nil, err
	}
	sealer, err := newSealer()
	if err != nil {
		return nil, err
	}
	return &Provider{options: options, now: now, client: &http.Client{Transport: transport, Timeout: providerTimeout}, sealer: sealer}, nil
}

// attempt is the state of a sign-in between the request to the provider and its answer. The browser keeps it in an encrypted cookie.
type attempt struct {
	State, Nonce, Verifier, Next string
	Until                        time.Time
}

// Begin returns the URL of the provider's sign-in page, and the cookie that the browser must send back with the answer. next is the path to
// go to afterwards. The error is ErrUnavailable.
func (p *Provider) Begin(next string) (url string, cookie *http.Cookie, err error) {
	config, _, err := p.config()
	if err != nil {
		return "", nil, err
	}
	a := attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: next, Until: p.now().Add(signInTimeout)}
	sealed, err := p.sealer.seal(a)
	if err != nil {
		return "", nil, err
	}
	return config.AuthCodeURL(a.State, gooidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), newCookie(sealed, int(signInTimeout.Seconds())), nil
}

// Finish returns the identity of a user whom the provider has sent back, and the path to go to. The error is ErrRejected or ErrUnavailable.
func (p *Provider) Finish(r *http.Request) (who access.Identity, next string, err error) {
	a, err := p.attemptOf(r)
	if err != nil {
		return who, "", err
	}
	query := r.URL.Query()
	if reason := query.Get("error"); reason != "" {
		return who, "", fmt.Errorf("%w: the provider reports the error %.100q", ErrRejected, reason)
	}
	config, provider, err := p.config()
	if err != nil {
		return who, "", err
	}
	ctx := gooidc.ClientContext(r.Context(), p.client)
	token, err := config.Exchange(ctx, query.Get("code"), oauth2.VerifierOption(a.Verifier))
	if refused := (*oauth2.RetrieveError)(nil); errors.As(err, &refused) && refused.Response.StatusCode < http.StatusInternalServerError {
		return who, "", fmt.Errorf("%w: the provider rejected the code with the error %.100q", ErrRejected, refused.ErrorCode)
	} else if err != nil {
		return who, "", fmt.Errorf("%w: request a token: %w", ErrUnavailable, err)
	}
	raw, _ := token.Extra("id_token").(string)
	verified, err := provider.VerifierContext(ctx, &gooidc.Config{ClientID: p.options.ClientID, Now: p.now}).Verify(ctx, raw)
	if err != nil {
		return who, "", fmt.Errorf("%w: %w", ErrRejected, err)
	}
	if subtle.ConstantTimeCompare([]byte(verified.Nonce), []byte(a.Nonce)) != 1 {
		return who, "", fmt.Errorf("%w: the ID token has another nonce", ErrRejected)
	}
	if who, err = p.options.identity(verified); err != nil {
		return who, "", fmt.Errorf("%w: %w", ErrRejected, err)
	}
	return who, a.Next, nil
}

// attemptOf returns the attempt of the browser to which an answer belongs.
func (p *Provider) attemptOf(r *http.Request) (a attempt, err error) {
	cookie, err := r.Cookie(Cookie)
	if err != nil {
		return a, fmt.Errorf("%w: the browser has not begun to sign in", ErrRejected)
	}
	if err := p.sealer.open(cookie.Value, &a); err != nil {
		return a, fmt.Errorf("%w: %w", ErrRejected, err)
	}
	if !p.now().Before(a.Until) {
		return a, fmt.Errorf("%w: it took too long", ErrRejected)
	}
	if subtle.ConstantTimeCompare([]byte(a.State), []byte(r.URL.Query().Get("state"))) != 1 {
		return a, fmt.Errorf("%w: the answer belongs to another sign-in", ErrRejected)
	}
	return a, nil
}

// config returns the configuration of the provider. It asks the provider until it has answered once.
func (p *Provider) config() (*oauth2.Config, *gooidc.Provider, error) {
	secret, err := p.options.secret()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.discovered == nil {
		// The provider keeps this context to fetch keys later.
		found, err := gooidc.NewProvider(gooidc.ClientContext(context.Background(), p.client), p.options.Issuer)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		p.discovered = found
	}
	return &oauth2.Config{
		ClientID: p.options.ClientID, ClientSecret: secret, RedirectURL: p.options.RedirectURL, Endpoint: p.discovered.Endpoint(), Scopes: p.options.Scopes,
	}, p.discovered, nil
}

// secret returns the current client secret; empty for a public client.
func (o *Options) secret() (string, error) {
	if o.ClientSecretFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(o.ClientSecretFile)
	if err != nil {
		return "", fmt.Errorf("--oidc-client-secret-file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

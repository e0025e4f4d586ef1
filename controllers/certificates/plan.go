package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"
)

// State is the content of the Secrets.
type State struct {
	Authority, Serving Pair
	// Trusted is the bundle that API servers should trust. It has the current authority first, then earlier authorities while a replica may
	// still serve a certificate that one of them signed.
	Trusted []byte
}

// Terms specify how certificates are issued.
type Terms struct {
	// Names are the host names to serve under; at least one.
	Names []string
	// Lifetime is the lifetime of serving certificates. RenewBefore is how long before its expiry a certificate is replaced.
	Lifetime, RenewBefore time.Duration
	// AuthorityLifetime is much longer, because a new authority has to spread to all API servers.
	AuthorityLifetime time.Duration
}

// Observations is what the controller observed outside of the Secrets.
type Observations struct {
	// Spread is true when every API server has had time to trust the current authority. Served is true when every replica has had time to
	// serve the current certificate, and the current authority signed it.
	Spread, Served bool
	// Injected is the bundle that the webhook configurations trust now.
	Injected []byte
}

// Next returns the next state. No admission review fails because of it: a certificate is served only after its authority is trusted, and an
// authority is trusted for as long as a replica may serve a certificate of it. If no certificate can be served at all, it does not wait.
func Next(s State, t Terms, observed Observations, now time.Time) (State, error) {
	next := s
	// An authority outlives every certificate that it signs.
	if !isAuthority(s.Authority, now.Add(t.Lifetime+t.RenewBefore)) {
		authority, err := newAuthority(now, t.AuthorityLifetime)
		if err != nil {
			return s, err
		}
		next.Authority, observed.Spread, observed.Served = authority, false, false
	}
	next.Trusted = trustedBundle(next, observed, now)
	if isCurrent(next.Authority, s.Serving, t, now) {
		return next, nil
	}
	if observed.Spread || !isAccepted(next.Trusted, s.Serving, now) {
		serving, err := issue(next.Authority, t.Names, now, t.Lifetime)
		if err != nil {
			return s, err
		}
		next.Serving = serving
	}
	return next, nil
}

func trustedBundle(s State, observed Observations, now time.Time) []byte {
	all := parseAll(s.Authority.Certificate)
	if !observed.Served {
		before := parseAll(s.Trusted)
		if len(before) == 0 {
			// The Secret was lost, or is new. Replicas may still serve its earlier content.
			before = parseAll(observed.Injected)
		}
		all = append(all, before...)
	}
	return bundleOf(all, now)
}

// isCurrent reports whether the authority could have issued the pair under these terms, and the pair is not due for renewal.
func isCurrent(authority, serving Pair, t Terms, now time.Time) bool {
	certificates := parseAll(serving.Certificate)
	if len(certificates) == 0 || !slices.Equal(certificates[0].DNSNames, t.Names) {
		return false
	}
	return hasSigned(authority.Certificate, serving, t.Names[0], serverOnly(), now.Add(t.RenewBefore))
}

// isAccepted reports whether API servers that trust a bundle accept a pair.
func isAccepted(bundle []byte, serving Pair, now time.Time) bool {
	return slices.ContainsFunc(parseAll(bundle), func(c *x509.Certificate) bool {
		return hasSigned(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}), serving, "", serverOnly(), now)
	})
}

func (s State) equal(other State) bool {
	return s.Authority.equal(other.Authority) && s.Serving.equal(other.Serving) && bytes.Equal(s.Trusted, other.Trusted)
}

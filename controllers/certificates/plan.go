package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"
)

// State is what the Secrets keep.
type State struct {
	Authority, Serving Pair
	// Trusted is the bundle that the apiservers are to trust: the authority first, and those before it while one of them may
	// still be what a replica's certificate goes by.
	Trusted []byte
}

// Terms are what certificates are made by.
type Terms struct {
	// Names are the host names to serve under; at least one.
	Names []string
	// Lifetime is that of serving certificates, and RenewBefore how long before its end one is replaced.
	Lifetime, RenewBefore time.Duration
	// AuthorityLifetime is much longer, since trust has to be spread.
	AuthorityLifetime time.Duration
}

// Seen is what is known of the world outside of the Secrets.
type Seen struct {
	// Spread is that every apiserver has had time to trust the present authority; Served, that every replica has had time to
	// serve the present certificate, and that the present authority signed it.
	Spread, Served bool
	// Injected is what the webhook configurations trust now.
	Injected []byte
}

// Next is the state to go on with. It loses no review: a certificate is not served before its authority is trusted, and an
// authority is trusted for as long as a certificate of its may be served. Where nothing can be served at all, it does not wait.
func Next(s State, t Terms, seen Seen, now time.Time) (State, error) {
	next := s
	// An authority outlives every certificate that it signs.
	if !isAuthority(s.Authority, now.Add(t.Lifetime+t.RenewBefore)) {
		authority, err := newAuthority(now, t.AuthorityLifetime)
		if err != nil {
			return s, err
		}
		next.Authority, seen.Spread, seen.Served = authority, false, false
	}
	next.Trusted = trusted(next, seen, now)
	if fits(next.Authority, s.Serving, t, now) {
		return next, nil
	}
	if seen.Spread || !isAlive(next.Trusted, s.Serving, now) {
		serving, err := issue(next.Authority, t.Names, now, t.Lifetime)
		if err != nil {
			return s, err
		}
		next.Serving = serving
	}
	return next, nil
}

func trusted(s State, seen Seen, now time.Time) []byte {
	all := parseAll(s.Authority.Certificate)
	if !seen.Served {
		before := parseAll(s.Trusted)
		if len(before) == 0 {
			// The Secret was lost, or is new. Replicas may well serve what was in it.
			before = parseAll(seen.Injected)
		}
		all = append(all, before...)
	}
	return bundleOf(all, now)
}

// fits tells whether a pair is one that the authority would make by these terms, and has a while to go.
func fits(authority, serving Pair, t Terms, now time.Time) bool {
	certificates := parseAll(serving.Certificate)
	if len(certificates) == 0 || !slices.Equal(certificates[0].DNSNames, t.Names) {
		return false
	}
	return vouchesFor(authority.Certificate, serving, t.Names[0], serverOnly(), now.Add(t.RenewBefore))
}

// isAlive tells whether apiservers that trust a bundle take a pair.
func isAlive(bundle []byte, serving Pair, now time.Time) bool {
	return slices.ContainsFunc(parseAll(bundle), func(c *x509.Certificate) bool {
		return vouchesFor(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}), serving, "", serverOnly(), now)
	})
}

func (s State) equal(other State) bool {
	return s.Authority.equal(other.Authority) && s.Serving.equal(other.Serving) && bytes.Equal(s.Trusted, other.Trusted)
}

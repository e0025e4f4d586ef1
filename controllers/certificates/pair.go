package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
)

const (
	// authorityName is the subject of authorities, by which the controller recognizes them.
	authorityName = "breakwater-webhook-ca"
	organization  = "breakwater"
	// clockSkew is how far the clock of a client may be behind the clock of this process.
	clockSkew = time.Hour
)

// Pair is a certificate and its key, in PEM.
type Pair struct{ Certificate, Key []byte }

func (p Pair) equal(other Pair) bool {
	return bytes.Equal(p.Certificate, other.Certificate) && bytes.Equal(p.Key, other.Key)
}

// hasSigned reports whether an authority signed a pair that can be served under a name at a time. An empty name means any name.
func hasSigned(authority []byte, p Pair, name string, usages []x509.ExtKeyUsage, at time.Time) bool {
	valid, err := rotator.ValidCert(authority, p.Certificate, p.Key, name, &usages, at)
	return err == nil && valid
}

func isAuthority(p Pair, at time.Time) bool {
	return hasSigned(p.Certificate, p, authorityName, []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, at)
}

func serverOnly() []x509.ExtKeyUsage { return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }

// newAuthority creates a pair that can sign others.
func newAuthority(now time.Time, lifetime time.Duration) (Pair, error) {
	artifacts, err := (&rotator.CertRotator{CAName: authorityName, CAOrganization: organization}).CreateCACert(now.Add(-clockSkew), now.Add(lifetime))
	if err != nil {
		return Pair{}, fmt.Errorf("create the certificate authority: %w", err)
	}
	return Pair{Certificate: artifacts.CertPEM, Key: artifacts.KeyPEM}, nil
}

// issue creates a pair that can be served under the names.
func issue(authority Pair, names []string, now time.Time, lifetime time.Duration) (Pair, error) {
	signer, err := parseAuthority(authority)
	if err != nil {
		return Pair{}, err
	}
	usages := serverOnly()
	r := &rotator.CertRotator{DNSName: names[0], ExtraDNSNames: names[1:], ExtKeyUsages: &usages}
	certificate, key, err := r.CreateCertPEM(signer, now.Add(-clockSkew), now.Add(lifetime))
	if err != nil {
		return Pair{}, fmt.Errorf("create the serving certificate: %w", err)
	}
	return Pair{Certificate: certificate, Key: key}, nil
}

func parseAuthority(p Pair) (*rotator.KeyPairArtifacts, error) {
	certificates := parseAll(p.Certificate)
	block, _ := pem.Decode(p.Key)
	if len(certificates) == 0 || block == nil {
		return nil, errors.New("the certificate authority is not PEM-encoded")
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the key of the certificate authority: %w", err)
	}
	return &rotator.KeyPairArtifacts{Cert: certificates[0], Key: key, CertPEM: p.Certificate, KeyPEM: p.Key}, nil
}

// parseAll returns the certificates of a bundle, and skips blocks that are not certificates.
func parseAll(bundle []byte) []*x509.Certificate {
	var all []*x509.Certificate
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, certificate)
		}
	}
	return all
}

// bundleOf concatenates certificates in PEM. It writes each once, and omits those that have expired.
func bundleOf(certificates []*x509.Certificate, now time.Time) []byte {
	var written []*x509.Certificate
	out := &bytes.Buffer{}
	for _, c := range certificates {
		if now.After(c.NotAfter) || slices.ContainsFunc(written, c.Equal) {
			continue
		}
		written = append(written, c)
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return out.Bytes()
}

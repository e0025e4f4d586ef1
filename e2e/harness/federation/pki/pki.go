// Package pki creates the CAs and certificates of a federation on one machine.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// validity is the validity of all certificates. No federation runs for a year.
const validity = 365 * 24 * time.Hour

// Authority signs certificates. Keys are ECDSA: RSA keys take seconds to generate, and cost a server a millisecond for each
// connection.
type Authority struct {
	// PEM is the authority's own certificate.
	PEM []byte

	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

// Pair is a certificate and its key in PEM.
type Pair struct {
	Certificate, Key []byte
}

// NewAuthority creates a certificate authority that no client trusts yet.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate the key of %s: %w", name, err)
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	if err != nil {
		return nil, fmt.Errorf("create the certificate of %s: %w", name, err)
	}
	encoded, err := cert.EncodeCertificates(certificate)
	if err != nil {
		return nil, fmt.Errorf("encode the certificate of %s: %w", name, err)
	}
	return &Authority{PEM: encoded, key: key, certificate: certificate}, nil
}

// Server signs a certificate for a server at these addresses and at localhost.
func (a *Authority) Server(name string, addresses []net.IP, dnsNames ...string) (Pair, error) {
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    append([]string{"localhost"}, dnsNames...),
		IPAddresses: addresses,
		// etcd calls itself with its server certificate.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

// Client signs a certificate for a user and its groups.
func (a *Authority) Client(user string, groups ...string) (Pair, error) {
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *Authority) sign(template *x509.Certificate) (Pair, error) {
	subject := template.Subject.CommonName
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generate the key of %s: %w", subject, err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return Pair{}, fmt.Errorf("generate the serial number of %s: %w", subject, err)
	}
	template.NotBefore = a.certificate.NotBefore
	template.NotAfter = time.Now().Add(validity)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the certificate of %s: %w", subject, err)
	}
	return encode(raw, key)
}

func encode(raw []byte, key *ecdsa.PrivateKey) (Pair, error) {
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		return Pair{}, err
	}
	certificatePEM, err := cert.EncodeCertificates(certificate)
	if err != nil {
		return Pair{}, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Certificate: certificatePEM, Key: keyPEM}, nil
}

// Write writes the pair to NAME.crt and NAME.key.
func (p Pair) Write(folder, name string) error {
	if err := os.WriteFile(filepath.Join(folder, name+".crt"), p.Certificate, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".key"), p.Key, 0o600)
}

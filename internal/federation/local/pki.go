package local

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

	"github.com/breakwater-k8s/breakwater/internal/federation/port"
)

// validity of all certificates. A federation to play with may run for weeks, never for a year.
const validity = 365 * 24 * time.Hour

// authority signs the certificates of one cluster. Keys are ECDSA: RSA keys would cost seconds of the start.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

// pair is a certificate and its key in PEM.
type pair struct {
	certificate, key []byte
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of %s: %w", name, err)
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of %s: %w", name, err)
	}
	return &authority{key: key, certificate: certificate}, nil
}

// pem is the authority's certificate.
func (a *authority) pem() ([]byte, error) { return cert.EncodeCertificates(a.certificate) }

// server signs for a server on the loopback interface.
func (a *authority) server(name string, dnsNames ...string) (pair, error) {
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    append([]string{"localhost"}, dnsNames...),
		IPAddresses: []net.IP{net.ParseIP(port.Host), firstServiceIP()},
		// etcd calls itself with its server certificate.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

// client signs for a user and their groups.
func (a *authority) client(user string, groups ...string) (pair, error) {
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) sign(template *x509.Certificate) (pair, error) {
	subject := template.Subject.CommonName
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("make the key of %s: %w", subject, err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return pair{}, fmt.Errorf("make the serial number of %s: %w", subject, err)
	}
	template.NotBefore = a.certificate.NotBefore
	template.NotAfter = time.Now().Add(validity)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("sign the certificate of %s: %w", subject, err)
	}
	return encode(raw, key)
}

func encode(raw []byte, key *ecdsa.PrivateKey) (pair, error) {
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		return pair{}, err
	}
	certificatePEM, err := cert.EncodeCertificates(certificate)
	if err != nil {
		return pair{}, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return pair{}, err
	}
	return pair{certificate: certificatePEM, key: keyPEM}, nil
}

// write puts the pair into NAME.crt and NAME.key.
func (p pair) write(folder, name string) error {
	if err := os.WriteFile(filepath.Join(folder, name+".crt"), p.certificate, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".key"), p.key, 0o600)
}

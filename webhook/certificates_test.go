package webhook_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates of servers on loopback, and of their clients.
type authority struct {
	t           testing.TB
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t)}
	template := certificate("authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2), net.IPv4(127, 0, 0, 3)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// sign returns a certificate and its key in PEM.
func (a *authority) sign(name string) (cert, key []byte) {
	a.t.Helper()
	private := newKey(a.t)
	raw, err := x509.CreateCertificate(rand.Reader, certificate(name), a.certificate, &private.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	rawKey, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: rawKey})
}

// client returns a client certificate that this authority signed.
func (a *authority) client(name string) tls.Certificate {
	a.t.Helper()
	pair, err := tls.X509KeyPair(a.sign(name))
	if err != nil {
		a.t.Fatal(err)
	}
	return pair
}

// pem returns the authority's own certificate.
func (a *authority) pem() []byte { return pemOf(a.certificate) }

func pemOf(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// store writes a new certificate of a server and its key to a folder.
func (a *authority) store(folder string) (certFile, keyFile string) {
	a.t.Helper()
	cert, key := a.sign("webhook")
	return write(a.t, folder, "tls.crt", cert), write(a.t, folder, "tls.key", key)
}

func write(t testing.TB, folder, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(folder, name)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

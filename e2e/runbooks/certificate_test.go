package runbooks_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

const day = 24 * time.Hour

// testCA is a CA that the API servers trust besides that of the installation.
var testCA struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func createTestCA(l *fixture) {
	l.Helper()
	var err error
	testCA.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	l.Must(err)
	testCA.certificate, err = cert.NewSelfSignedCACert(cert.Config{CommonName: "runbooks", NotBefore: time.Now().Add(-400 * day)}, testCA.key)
	l.Must(err)
	encoded, err := cert.EncodeCertificates(testCA.certificate)
	l.Must(err)
	bundle := filepath.Join(suite.Dir(), "webhook", "ca.crt")
	trusted, err := os.ReadFile(bundle)
	l.Must(err)
	l.Must(os.WriteFile(bundle, append(trusted, encoded...), 0o600))
	l.Must(suite.Breakwater.Configure(l.Context()))
}

// serveCertificate makes the webhooks serve a certificate that expires after the given time. They read it again within ten seconds.
func serveCertificate(l *fixture, lasts time.Duration) {
	l.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	l.Must(err)
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	l.Must(err)
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject: pkix.Name{CommonName: "breakwater webhook"}, SerialNumber: number, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(install.ExternalHost)},
		NotBefore: time.Now().Add(lasts - 400*day), NotAfter: time.Now().Add(lasts),
	}, testCA.certificate, key.Public(), testCA.key)
	l.Must(err)
	certificate, err := x509.ParseCertificate(raw)
	l.Must(err)
	encoded, err := cert.EncodeCertificates(certificate)
	l.Must(err)
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	l.Must(err)
	for name, content := range map[string][]byte{"tls.crt": encoded, "tls.key": keyPEM} {
		path := filepath.Join(suite.Dir(), "webhook", name)
		l.Must(os.WriteFile(path+".next", content, 0o600))
		l.Must(os.Rename(path+".next", path))
	}
}

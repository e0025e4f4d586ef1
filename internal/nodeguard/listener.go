package nodeguard

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The guard's own certificate, for the kubelet.
const (
	certFile = "tls.crt"
	keyFile  = "tls.key"
	// certValidity is long because only this node's kubelet trusts the certificate, and nothing must expire during a disaster.
	certValidity = 100 * 365 * 24 * time.Hour
)

// EnsureCertificate returns the certificate that the kubelet must trust, as PEM. It makes one if the directory has none.
func EnsureCertificate(dir string, now time.Time) ([]byte, error) {
	cert, err := os.ReadFile(filepath.Join(dir, certFile))
	if err == nil {
		return cert, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "breakwater node guard"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certValidity),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	rawKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	return cert, errors.Join(
		os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, keyFile), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: rawKey}), 0o600),
		os.WriteFile(filepath.Join(dir, certFile), cert, 0o600),
	)
}

// serverConfig returns the TLS configuration of the guard's port. The guard acts with the kubelet's certificate, so it serves only clients
// that hold that certificate.
func serverConfig(dir, clientCertFile string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	if err != nil {
		return nil, fmt.Errorf("read the guard's certificate: %w", err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert,
		NextProtos: []string{"h2", "http/1.1"},
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) > 0 && isKubeletCert(clientCertFile, s.PeerCertificates[0].Raw) {
				return nil
			}
			return errors.New("only the kubelet of this node may use the node guard")
		},
	}, nil
}

// isKubeletCert reports whether a certificate is one of the kubelet's, which keeps the earlier ones beside the current.
func isKubeletCert(current string, raw []byte) bool {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(current), "kubelet-client-*.pem"))
	if err != nil {
		return false
	}
	for _, file := range append(files, current) {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
			if block.Type == "CERTIFICATE" && bytes.Equal(block.Bytes, raw) {
				return true
			}
		}
	}
	return false
}

package testplane

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	certutil "k8s.io/client-go/util/cert"
)

// Certificate writes a self-signed certificate for 127.0.0.1 and its key to files. It returns their paths, and the certificate as
// PEM.
func Certificate(tb testing.TB) (certFile, keyFile string, authority []byte) {
	tb.Helper()
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	folder := tb.TempDir()
	certFile, keyFile = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	for name, content := range map[string][]byte{certFile: certificate, keyFile: key} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return certFile, keyFile, certificate
}

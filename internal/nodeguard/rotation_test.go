package nodeguard

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// API servers check the certificate of a connection at each request, also after it has expired: requests must use the one that the kubelet has now.
func TestUpstreamUsesTheCertificateThatTheKubeletHasNow(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.Sum256(r.TLS.PeerCertificates[0].Raw)
		_, _ = io.WriteString(w, hex.EncodeToString(sum[:]))
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	dir, roots := t.TempDir(), x509.NewCertPool()
	roots.AddCert(server.Certificate())
	cert, key := filepath.Join(dir, certFile), filepath.Join(dir, keyFile)
	k := &Kubeconfig{Server: address, ServerName: "example.com", Roots: roots, CertFile: cert, KeyFile: key}
	u := NewUpstream(k, true, func(context.Context, http.RoundTripper) error { return nil })
	rotate := func(at time.Time) {
		for _, file := range []string{cert, key} {
			if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		if _, err := EnsureCertificate(dir, at); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(cert, at, at); err != nil {
			t.Fatal(err)
		}
	}
	shown := func() string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := u.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	now := time.Now().Truncate(time.Second)
	rotate(now)
	first := shown()
	if again := shown(); again != first {
		t.Error("the certificate has changed although the kubelet has not replaced it")
	}
	rotate(now.Add(time.Second))
	if second := shown(); second == first {
		t.Error("requests still use the certificate that the kubelet has replaced")
	}
}

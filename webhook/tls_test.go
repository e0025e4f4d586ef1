package webhook_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/webhook/server"
)

func TestReplacedCertificateIsServed(t *testing.T) {
	l := newFixture(t)
	r := l.serve()
	served := func() string {
		connection, err := tls.Dial("tcp", r.server.Address(), &tls.Config{RootCAs: r.authority.pool(), MinVersion: tls.VersionTLS12})
		if err != nil {
			return "error: " + err.Error()
		}
		defer connection.Close()
		return connection.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := served()
	r.authority.store(filepath.Dir(r.server.CertFile))
	l.eventually(func() string {
		if now := served(); now == before || strings.HasPrefix(now, "error") {
			return "certificate " + now + " is served as before"
		}
		return ""
	})
}

func TestClientCertificates(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 1, 2)
	raw, err := json.Marshal(deleteReview(l.pod("web-0")))
	if err != nil {
		t.Fatal(err)
	}
	ours, others := newAuthority(t), newAuthority(t)
	r := l.serve(func(s *replicaOptions) {
		s.server.ClientCAFile = write(t, t.TempDir(), "ca.crt", ours.pem())
		s.server.ClientNames = []string{"apiserver", "apiserver.example"}
	})
	for claim, test := range map[string]struct {
		present []tls.Certificate
		want    bool
	}{
		"no certificate is refused":                  {nil, false},
		"a certificate of another CA is refused":     {[]tls.Certificate{others.client("apiserver")}, false},
		"a certificate with another name is refused": {[]tls.Certificate{ours.client("kubelet")}, false},
		"one of the right authority is listened to":  {[]tls.Certificate{ours.client("apiserver")}, true},
	} {
		t.Run(claim, func(t *testing.T) {
			code, body, err := r.post(t.Context(), "/cells/"+l.cell+"/validate", strings.NewReader(string(raw)), test.present...)
			if (err == nil) != test.want || test.want && code != http.StatusOK {
				t.Errorf("answer %d %q, error %v", code, body, err)
			}
		})
	}
	l.wantReserved("web", 1)
}

func TestUnusableTLSFilesAreReported(t *testing.T) {
	l := newFixture(t)
	garbage := write(t, t.TempDir(), "garbage", []byte("garbage"))
	for claim, test := range map[string]struct {
		change func(*server.Server)
		want   string
	}{
		"a certificate that does not exist": {func(s *server.Server) { s.CertFile = "/nonexistent/tls.crt" }, "--tls-cert /nonexistent/tls.crt"},
		"an invalid key":                    {func(s *server.Server) { s.KeyFile = garbage }, "--tls-key " + garbage},
		"an invalid client CA":              {func(s *server.Server) { s.ClientCAFile = garbage }, fmt.Sprintf("--client-ca: %s holds no PEM certificate", garbage)},
		"an invalid address":                {func(s *server.Server) { s.Listen = "127.0.0.1:-1" }, "--listen: "},
	} {
		t.Run(claim, func(t *testing.T) {
			s := &server.Server{Listen: "127.0.0.1:0"}
			s.CertFile, s.KeyFile = newAuthority(l).store(t.TempDir())
			test.change(s)
			if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want it to say %q", err, test.want)
			}
		})
	}
}

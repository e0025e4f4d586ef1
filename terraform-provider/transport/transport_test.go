package transport

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// sendRequest sends a request with a configuration and returns the error.
func sendRequest(t *testing.T, config *rest.Config) error {
	t.Helper()
	config.Timeout, config.QPS = 2*time.Second, -1 // without a rate limit, as the provider
	with, err := NewClient(config, DefaultPatience)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfigAndClient(config, with)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(t.Context(), "default", metav1.GetOptions{})
	if err == nil {
		t.Fatal("it answered")
	}
	return err
}

// listen serves connections until the test ends, and returns its address.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(connection)
		}
	}()
	return listener.Addr().String()
}

// overTLS starts a TLS server and returns its address and its certificate, which is its own authority.
func overTLS(t *testing.T, change func(*tls.Config)) (address, authority string) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{}
	change(server.TLS)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func closedAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	return listener.Addr().String()
}

// expired starts a server whose certificate expired an hour ago.
func expired(t *testing.T) (address, authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return overTLS(t, func(c *tls.Config) { c.Certificates = []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}} })
}

func through(proxy string) func(*http.Request) (*url.URL, error) {
	return func(*http.Request) (*url.URL, error) { return &url.URL{Scheme: "http", Host: proxy}, nil }
}

func TestIsUnreachable(t *testing.T) {
	quiet := func(*tls.Config) {}
	trusted, authority := overTLS(t, quiet)
	old, oldAuthority := expired(t)
	strict, strictAuthority := overTLS(t, func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert })
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	ca := func(pem string) rest.TLSClientConfig { return rest.TLSClientConfig{CAData: []byte(pem)} }
	for claim, c := range map[string]struct {
		config *rest.Config
		silent bool
		want   string
	}{
		"connection refused":               {&rest.Config{Host: "https://" + closedAddress(t)}, true, "connection refused"},
		"no answer":                        {&rest.Config{Host: "https://" + listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })}, true, ""},
		"closed connection":                {&rest.Config{Host: "https://" + listen(t, func(c net.Conn) { c.Close() })}, true, ""},
		"unknown host name":                {&rest.Config{Host: "https://core.invalid"}, true, ""},
		"unreachable proxy":                {&rest.Config{Host: "https://core.example", Proxy: through(closedAddress(t))}, true, "proxyconnect"},
		"the proxy's name is not known":    {&rest.Config{Host: "https://core.example", Proxy: through("proxy.invalid")}, true, "proxyconnect"},
		"a certificate of an unknown CA":   {&rest.Config{Host: trusted}, false, "trusts no CA"},
		"a certificate for another name":   {&rest.Config{Host: strings.Replace(trusted, "127.0.0.1", "localhost", 1), TLSClientConfig: ca(authority)}, false, "set tls_server_name"},
		"the certificate has expired":      {&rest.Config{Host: old, TLSClientConfig: ca(oldAuthority)}, false, "is not valid at this time"},
		"a client's certificate is needed": {&rest.Config{Host: strict, TLSClientConfig: ca(strictAuthority)}, false, "check that it accepts client_certificate"},
		"a server without TLS":             {&rest.Config{Host: strings.Replace(plain.URL, "http:", "https:", 1)}, false, "does not use TLS"},
		"a server of another protocol":     {&rest.Config{Host: "https://" + listen(t, func(c net.Conn) { _, _ = c.Write([]byte("220 mail.example ESMTP\r\n")) })}, false, "does not use TLS"},
		"a missing plugin":                 {&rest.Config{Host: trusted, ExecProvider: plugin("/no/such/plugin")}, false, "run its command manually"},
		"the plugin fails":                 {&rest.Config{Host: trusted, ExecProvider: plugin("false")}, false, "run its command manually"},
		"the plugin prints something else": {&rest.Config{Host: trusted, ExecProvider: plugin("echo", `{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {"expirationTimestamp": "hidden"}}`)}, false, "is not an ExecCredential"},
	} {
		t.Run(claim, func(t *testing.T) {
			err := sendRequest(t, c.config)
			if silent := isUnreachable(err); silent != c.silent {
				t.Errorf("isUnreachable() = %t, want %t: %v", silent, c.silent, err)
			}
			said := err.Error() + " " + Remedy(err)
			if !strings.Contains(said, c.want) || !c.silent && Remedy(err) == "" {
				t.Errorf("error %q does not contain %q", said, c.want)
			}
			if strings.Contains(said, "hidden") {
				t.Errorf("error contains a secret: %s", said)
			}
		})
	}
}

func TestIsUnreachableWithProxy(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}
	for claim, err := range map[string]error{
		"without a proxy": &url.Error{Op: "Get", Err: dial},
		"to a proxy":      &url.Error{Op: "Get", Err: &net.OpError{Op: "proxyconnect", Err: dial}},
	} {
		if !isUnreachable(err) {
			t.Errorf("isUnreachable() %s = false: %v", claim, err)
		}
	}
	if err := (&url.Error{Op: "Get", Err: &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}}); isUnreachable(err) {
		t.Errorf("isUnreachable() of a TLS error = true: %v", err)
	}
}

func plugin(command string, arguments ...string) *clientcmdapi.ExecConfig {
	return &clientcmdapi.ExecConfig{Command: command, Args: arguments, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
}

func TestRetryReportsLastErrorBeforeTimeout(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	host := "https://" + closedAddress(t)
	tries := 0
	err := Retry(ctx, func(ctx context.Context) error {
		if tries++; tries > 2 {
			<-ctx.Done()
			return ctx.Err()
		}
		return sendRequest(t, &rest.Config{Host: host})
	})
	if err == nil || !strings.Contains(err.Error(), "connection refused (until the timeout expired)") {
		t.Error(err)
	}
}

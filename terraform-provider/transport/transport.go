// Package transport sends the requests of the provider to one cluster: it retries what may succeed later, ends all requests when the cluster is
// unreachable, and suggests what to do about failures.
package transport

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// NewClient returns the HTTP client of a cluster. The configuration gets a timeout if it has none. After the cluster has not answered for patience,
// all requests fail at once.
func NewClient(config *rest.Config, patience time.Duration) (*http.Client, error) {
	config.Timeout = cmp.Or(config.Timeout, requestPatiences*patience)
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	server, err := ServerOf(config)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &outageGuard{RoundTripper: redactingTransport{c.Transport}, server: server, patience: patience}, Timeout: c.Timeout}, nil
}

// redactingTransport removes the output of an exec plugin from errors, because Terraform shows and logs errors and the output can contain a
// token.
type redactingTransport struct{ http.RoundTripper }

var errExecPlugin = errors.New("getting credentials: the output of the exec plugin is not an ExecCredential of its api_version " +
	"(it is not shown here: it may hold a token)")

// RoundTrip sends the request.
func (d redactingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.RoundTripper.RoundTrip(req)
	if err != nil && strings.Contains(err.Error(), "getting credentials: decoding stdout") {
		return nil, errExecPlugin
	}
	return resp, err
}

// Remedy suggests what to do about a failure that is not an answer of an API server.
func Remedy(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var header tls.RecordHeaderError
	answer, _ := apierrors.StatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	switch said := err.Error() + answer.Message; {
	case errors.As(err, &unknown):
		return "The provider trusts no CA of the API server's certificate: check host, " +
			"and set cluster_ca_certificate to the CA certificate of the cluster."
	case errors.As(err, &name):
		return "The certificate of the API server is for other names: check host, or set tls_server_name to a name that it is for."
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "The certificate of the API server, or of its CA, is not valid at this time: renew it, or correct the clock of this machine."
	case errors.As(err, &header), strings.Contains(said, "server gave HTTP response to HTTPS client"):
		return "The server does not use TLS: check that the host and port are those of an API server."
	case strings.Contains(said, "Client sent an HTTP request to an HTTPS server"):
		return "The server uses TLS: set host to an https URL."
	case strings.Contains(said, "erializer for"), strings.Contains(said, "couldn't get version/kind"), runtime.IsMissingKind(err):
		return "The server is not a Kubernetes API server: check host and port, and whether a proxy answers in its place."
	case strings.Contains(said, "remote error: tls"):
		return "The API server, or a proxy in front of it, refused the connection: check that it accepts client_certificate."
	case strings.Contains(said, "getting credentials"):
		return "The exec plugin of the configuration returned no credentials: run its command manually. Its standard error is in the log (TF_LOG=DEBUG)."
	}
	return ""
}

// ServerOf returns the URL of an API server, without a password that the URL may contain.
func ServerOf(config *rest.Config) (string, error) {
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", err
	}
	address.User = nil
	return address.String(), nil
}

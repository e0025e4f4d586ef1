package provider

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// transportOf returns the HTTP client that all clients of a cluster use.
func transportOf(config *rest.Config) (*http.Client, error) {
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: discreet{c.Transport}, Timeout: c.Timeout}, nil
}

// discreet removes the output of an exec plugin from errors, because Terraform shows and logs errors and the output can contain a
// token.
type discreet struct{ http.RoundTripper }

var errPlugin = errors.New("getting credentials: what the exec plugin printed is no ExecCredential of its api_version " +
	"(it is not shown here: it may hold a token)")

// RoundTrip sends the request.
func (d discreet) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.RoundTripper.RoundTrip(req)
	if err != nil && strings.Contains(err.Error(), "getting credentials: decoding stdout") {
		return nil, errPlugin
	}
	return resp, err
}

// WrappedRoundTripper lets client-go find the underlying transport.
func (d discreet) WrappedRoundTripper() http.RoundTripper { return d.RoundTripper }

// remedy suggests what to do about a failure that is not an answer of an API server.
func remedy(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var header tls.RecordHeaderError
	switch said := err.Error(); {
	case errors.As(err, &unknown):
		return "The certificate of the apiserver is not vouched for by any authority that the provider trusts: see whether host is right, " +
			"and set cluster_ca_certificate to the certificate of the cluster's authority."
	case errors.As(err, &name):
		return "The certificate of the apiserver is for other names: see whether host is right, or set tls_server_name to a name that it is for."
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "The certificate of the apiserver, or of its authority, is not valid at this time: renew it, or correct the clock of this machine."
	case errors.As(err, &header), strings.Contains(said, "server gave HTTP response to HTTPS client"):
		return "What answers there does not speak TLS: see whether the host and port are those of an apiserver."
	case strings.Contains(said, "remote error: tls"):
		return "The apiserver, or what stands before it, refused the connection: see whether client_certificate is one that it accepts."
	case strings.Contains(said, "getting credentials"):
		return "The exec plugin of the configuration gave no credentials: run its command by hand. What it says to its standard error is in the log (TF_LOG=DEBUG)."
	}
	return ""
}

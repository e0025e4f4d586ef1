package clusters

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// RotatingConnection is a connection to a cluster whose credentials, certificate authority and address may change while clients use it. Requests in
// progress continue, and the next request uses the new configuration. A watch, and the state derived from it, therefore outlives a
// rotation.
type RotatingConnection struct {
	userAgent string
	current   atomic.Pointer[target]
}

type target struct {
	base      *url.URL
	transport http.RoundTripper
	// expiry is when the token expires; zero if unknown.
	expiry time.Time
}

// NewRotatingConnection returns a connection that uses config until Set replaces it.
func NewRotatingConnection(config *rest.Config) (*RotatingConnection, error) {
	r := &RotatingConnection{userAgent: config.UserAgent}
	return r, r.Set(config)
}

// Set makes all further requests use another configuration.
func (r *RotatingConnection) Set(config *rest.Config) error {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("address %q: %w", config.Host, err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return fmt.Errorf("credentials for %s: %w", config.Host, err)
	}
	if old := r.current.Swap(&target{base: base, transport: transport, expiry: configuredExpiry(config)}); old != nil && old.transport != transport {
		utilnet.CloseIdleConnectionsFor(old.transport)
	}
	return nil
}

// Config returns the configuration for clients of the connection. It stays valid after every Set.
func (r *RotatingConnection) Config() *rest.Config {
	return &rest.Config{Host: "https://cell.invalid", Transport: r, QPS: -1, UserAgent: r.userAgent}
}

// RoundTrip implements http.RoundTripper.
func (r *RotatingConnection) RoundTrip(request *http.Request) (*http.Response, error) {
	to := r.current.Load()
	request = request.Clone(request.Context())
	request.URL.Scheme, request.URL.Host, request.Host = to.base.Scheme, to.base.Host, ""
	if prefix := strings.TrimSuffix(to.base.Path, "/"); prefix != "" {
		request.URL.Path, request.URL.RawPath = prefix+request.URL.Path, ""
	}
	return to.transport.RoundTrip(request)
}

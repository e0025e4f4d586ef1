package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/doctor"
)

// askEach sends requests to all webhooks concurrently.
func askEach[T any](hooks []T, ask func(*T) doctor.Hook) []doctor.Hook {
	all := make([]doctor.Hook, len(hooks))
	each(hooks, func(i int, _ T) { all[i] = ask(&hooks[i]) })
	return all
}

// readHook reads the certificate of a webhook and sends it a request, if the webhook is reachable from this machine.
func readHook(ctx context.Context, name string, of doctor.Asks, at *admissionregistrationv1.WebhookClientConfig, ask func() error) doctor.Hook {
	found := doctor.Hook{Name: name, Of: of, Bundle: at.CABundle}
	address := ""
	switch {
	case at.URL != nil:
		parsed, err := url.Parse(*at.URL)
		if err != nil {
			found.Chain.Err = err
			return found
		}
		found.Host, address = parsed.Hostname(), net.JoinHostPort(parsed.Hostname(), portOf(parsed))
	case at.Service != nil:
		found.Host = at.Service.Name + "." + at.Service.Namespace + ".svc"
		// Names of Services resolve only within the cluster.
		found.Local = true
		return found
	default:
		found.Chain.Err = errors.New("it has neither a Service nor a URL")
		return found
	}
	if found.Chain = read(servedAt(ctx, address, found.Host)); found.Chain.Err == nil {
		found.Answer = ask()
	}
	return found
}

func portOf(address *url.URL) string {
	if port := address.Port(); port != "" {
		return port
	}
	return "443"
}

// servedAt returns the certificates that are served at an address, trusted or not.
func servedAt(ctx context.Context, address, name string) ([]*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: name}} //nolint:gosec // Judge verifies the served chain
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates, nil
}

package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// PeerAddresses finds the replicas of a webhook.
type PeerAddresses struct {
	// Names are HOST:PORT pairs. A HOST may resolve to many addresses, like the name of a headless Service.
	Names []string
	// LookUp returns the addresses of a host; nil means the resolver of the machine.
	LookUp func(ctx context.Context, host string) ([]string, error)
	Log    logr.Logger

	found atomic.Pointer[[]string]
}

const (
	// lookUpInterval is the interval of lookups, and lookUpTimeout limits one of them.
	lookUpInterval = 10 * time.Second
	lookUpTimeout  = 5 * time.Second
)

// All returns the addresses that were found last.
func (a *PeerAddresses) All() []string {
	if found := a.found.Load(); found != nil {
		return *found
	}
	return nil
}

// Start looks the names up periodically until ctx ends. When a lookup fails, the addresses stay as they were.
func (a *PeerAddresses) Start(ctx context.Context) error {
	ticker := time.NewTicker(lookUpInterval)
	defer ticker.Stop()
	for {
		found, err := a.lookUp(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			a.Log.Error(err, "Could not look up other replicas")
		case !slices.Equal(found, a.All()):
			a.Log.Info("Found replicas", "addresses", found)
			a.found.Store(&found)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// NeedLeaderElection returns false: all replicas answer.
func (a *PeerAddresses) NeedLeaderElection() bool { return false }

func (a *PeerAddresses) lookUp(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	resolve := a.LookUp
	if resolve == nil {
		resolve = net.DefaultResolver.LookupHost
	}
	var all []string
	for _, name := range a.Names {
		host, port, err := net.SplitHostPort(name)
		if err != nil {
			return nil, err
		}
		addresses, err := resolve(ctx, host)
		if err != nil {
			return nil, fmt.Errorf("look up %s: %w", host, err)
		}
		for _, address := range addresses {
			all = append(all, net.JoinHostPort(address, port))
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// identity is the serving certificate of a webhook. All replicas have the same one, and identify each other by it in
// both directions: a peer that proves possession of its key is a replica. During a rotation the certificates may
// differ, and then each replica works by itself.
type identity struct {
	// certificate returns the current certificate.
	certificate func() (*tls.Certificate, error)
}

// verifyPeer returns an error unless the other end of a connection is a replica.
func (i identity) verifyPeer(connection *tls.ConnectionState) error {
	own, err := i.certificate()
	if err != nil {
		return err
	}
	if connection == nil || len(connection.PeerCertificates) == 0 {
		return errors.New("the peer presented no certificate")
	}
	if !bytes.Equal(connection.PeerCertificates[0].Raw, own.Certificate[0]) {
		return errors.New("its certificate differs from the one of this replica")
	}
	return nil
}

// client returns a client for calls to other replicas. It opens one connection to a replica at a time, and another only when the streams of
// those are in use. Without that limit each call of the first moment of a storm would open one, and the handshakes would take longer than
// the calls may.
func (i identity) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true, MaxConnsPerHost: 1, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 5 * time.Second,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS13,
			// Names and CAs are not checked: VerifyConnection requires the certificate of this replica.
			InsecureSkipVerify:   true, //nolint:gosec // see above
			VerifyConnection:     func(state tls.ConnectionState) error { return i.verifyPeer(&state) },
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return i.certificate() },
		},
	}}
}

// requirePeer passes requests of replicas to a handler, and refuses all others.
func (i identity) requirePeer(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := i.verifyPeer(r.TLS); err != nil {
			http.Error(w, "only replicas of this webhook may use this path: "+err.Error(), http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

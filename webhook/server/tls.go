package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	watcher, err := certwatcher.New(s.CertFile, s.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", s.CertFile, s.KeyFile, err)
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			s.log.Error(err, "Stopped reloading certificates")
		}
	}()
	s.watcher.Store(watcher)
	// Other replicas present a certificate; other clients need not.
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: watcher.GetCertificate, NextProtos: []string{"h2", "http/1.1"},
		ClientAuth: tls.RequestClientCert,
	}
	if s.ClientCAFile != "" {
		pool, err := loadPool(s.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("--client-ca: %w", err)
		}
		config.ClientAuth = tls.RequireAnyClientCert
		config.VerifyConnection = func(state tls.ConnectionState) error { return s.authorizeClient(&state, pool) }
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if address, ok := listener.Addr().(*net.TCPAddr); ok {
		s.address.Store(address)
	}
	return tls.NewListener(newLimitedListener(listener, maxConnections, s.metrics.evictedConnections.Inc), config), nil
}

// authorizeClient returns an error unless the client is a replica, or has a client certificate that a CA of the pool signed, for
// an allowed name.
func (s *Server) authorizeClient(connection *tls.ConnectionState, pool *x509.CertPool) error {
	if s.identity().verifyPeer(connection) == nil {
		return nil
	}
	intermediates := x509.NewCertPool()
	for _, c := range connection.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	client := connection.PeerCertificates[0]
	if _, err := client.Verify(x509.VerifyOptions{
		Roots: pool, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return err
	}
	isNamed := func(name string) bool { return slices.Contains(s.ClientNames, name) }
	if len(s.ClientNames) > 0 && !isNamed(client.Subject.CommonName) && !slices.ContainsFunc(client.DNSNames, isNamed) {
		return fmt.Errorf("client certificate of %q: --client-name does not allow this name", client.Subject.CommonName)
	}
	return nil
}

func loadPool(file string) (*x509.CertPool, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("%s holds no PEM certificate", file)
	}
	return pool, nil
}

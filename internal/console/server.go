// Package console serves a web page with protectors, cells and denials. It shows each user what the core's API server permits that user
// to see. It is read-only.
package console

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/breakwater-k8s/breakwater/internal/console/access"
)

const (
	// maxConnections, maxHeaderBytes and the limits below bound the resources that clients can use.
	maxConnections  = 1_024
	maxHeaderBytes  = 64 << 10
	maxFormBytes    = 64 << 10
	requestTimeout  = 30 * time.Second
	shutdownTimeout = 5 * time.Second
)

// server serves the pages over TLS, or without TLS to one user of this machine.
type server struct {
	options Options
	log     logr.Logger
	now     func() time.Time
	began   time.Time
	// cores are the core clusters. The first is that of the manager.
	cores   []*core
	gate    *access.Gate
	pages   *pages
	streams *streams
	metrics *metrics
	address atomic.Pointer[net.TCPAddr]
}

// Start implements manager.Runnable. It serves until ctx ends.
func (s *server) Start(ctx context.Context) error {
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end() // also ends the streams
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaderBytes, BaseContext: func(net.Listener) context.Context { return serving },
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	if s.options.Local != nil && s.options.Local.Ready != nil {
		go s.reportReady(ctx)
	}
	s.log.Info("Serving the console", "address", listener.Addr().String())
	select {
	case err := <-failed:
		return fmt.Errorf("serve the console on %s: %w", s.options.Listen, err)
	case <-ctx.Done():
	}
	end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("stop the console: %w", err), server.Close())
	}
	return nil
}

func (s *server) listen(ctx context.Context) (net.Listener, error) {
	if s.options.Local != nil {
		return netutil.LimitListener(s.options.Local.Listener, maxConnections), s.storeAddress(s.options.Local.Listener)
	}
	watcher, err := certwatcher.New(s.options.CertFile, s.options.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", s.options.CertFile, s.options.KeyFile, err)
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			s.log.Error(err, "Stopped reloading certificates")
		}
	}()
	plain, err := net.Listen("tcp", s.options.Listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if err := s.storeAddress(plain); err != nil {
		return nil, err
	}
	return tls.NewListener(netutil.LimitListener(plain, maxConnections), &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: watcher.GetCertificate, NextProtos: []string{"h2", "http/1.1"},
	}), nil
}

func (s *server) storeAddress(listener net.Listener) error {
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("the console listens on %s, want a TCP address", listener.Addr())
	}
	s.address.Store(address)
	return nil
}

// ready returns nil once the console listens, has the data of a core, and has tried to connect to all others.
func (s *server) ready(*http.Request) error {
	if s.address.Load() == nil {
		return errors.New("not listening yet")
	}
	anyData := false
	for _, c := range s.cores {
		tried, hasData := c.isTried()
		if !tried {
			return fmt.Errorf("no data of core %s yet", c.name)
		}
		anyData = anyData || hasData
	}
	if !anyData {
		return errors.New("no core has answered yet")
	}
	return nil
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", s.servePage("fleet", s.fleet))
	mux.Handle("GET /protectors/{namespace}/{name}", s.servePage("protector", s.protector))
	mux.Handle("GET /cores/{core}/protectors/{namespace}/{name}", s.servePage("protector", s.protector))
	mux.Handle("GET /cells", s.servePage("cells", s.cells))
	mux.Handle("GET /api/fleet", s.serveJSON("fleet", s.fleet))
	mux.Handle("GET /api/protectors/{namespace}/{name}", s.serveJSON("protector", s.protector))
	mux.Handle("GET /api/cores/{core}/protectors/{namespace}/{name}", s.serveJSON("protector", s.protector))
	mux.Handle("GET /api/cells", s.serveJSON("cells", s.cells))
	if s.options.Local != nil {
		mux.HandleFunc("GET "+localPrefix+"{secret}", s.signInLocally)
		mux.HandleFunc("GET /sign-in", func(w http.ResponseWriter, r *http.Request) { s.writeProblem(w, r, notSignedInLocally()) })
	} else {
		mux.HandleFunc("GET /sign-in", s.signInPage)
		mux.HandleFunc("POST /sign-in", s.signIn)
	}
	mux.HandleFunc("POST /sign-out", s.signOut)
	mux.Handle("GET "+s.pages.assets.prefix, s.pages.assets)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.writeProblem(w, r, problem{http.StatusNotFound, "There is no such page", "Protectors are at /protectors/NAMESPACE/NAME."})
	})
	return s.metrics.countRequests(withSecurityHeaders(s.onlyOwnHost(http.NewCrossOriginProtection().Handler(mux))))
}

// withSecurityHeaders sets the security headers of every response: no foreign content, no framing, no caching.
func withSecurityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for key, value := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
				"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY",
			"Referrer-Policy":              "same-origin",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
			"Cache-Control":                "no-store",
		} {
			w.Header().Set(key, value)
		}
		next.ServeHTTP(w, r)
	})
}

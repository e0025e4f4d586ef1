// Package server receives reviews over TLS: it authenticates their callers, limits what they can take, and answers what the Protection decides.
package server

import (
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
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

const (
	// maxHeaderBytes limits the headers of a request.
	maxHeaderBytes = 64 << 10
	// maxStreams limits the concurrent reviews of one HTTP/2 connection; a client with more opens another.
	maxStreams = 250
	// readTimeout is how long a client may take to send a request.
	readTimeout = 30 * time.Second
	// drainTimeout is how long reviews in flight may take after SIGTERM and Drain.
	drainTimeout = 30 * time.Second
)

// Server serves reviews over TLS.
type Server struct {
	Listen            string
	CertFile, KeyFile string
	// ClientCAFile requires clients to present a certificate that this CA signed. Empty admits every client.
	ClientCAFile string
	// ClientNames are the allowed common names or DNS names of client certificates that the CA signed; empty allows all
	// of them. The client CA of a cluster also signs certificates of kubelets and users.
	ClientNames []string
	// CallerKeys is a folder with the keys of caller tokens, which authenticate clients without a certificate; empty is
	// none.
	CallerKeys string
	// Drain is how long the server still accepts reviews after ctx of Start has ended, while its endpoint is taken out
	// of service.
	Drain time.Duration
	// HelpURL is the page that refusals name; empty for none.
	HelpURL string
	// Audit admits all removals that would be refused, with a warning.
	Audit bool

	// Scheduling answers reviews of pods and templates that are to be stored; nil when scheduling is off.
	Scheduling Reviewer
	// Roots answers reviews of deletions of objects that floors depend on, in a cluster as webhookconfig.RootGuardPath
	// names it; nil when the root guard is off.
	Roots Reviewer

	protection Protection
	tracer     *tracing.Tracer
	metrics    *metrics
	log        logr.Logger

	// replicas returns the number of replicas; nil means one.
	replicas func() int
	address  atomic.Pointer[net.TCPAddr]
	watcher  atomic.Pointer[certwatcher.CertWatcher]
	draining atomic.Bool
	// bodyLimiter limits the bytes of all reviews that are read at a time.
	bodyLimiter *bodyLimiter
	callers     callerAuthenticator
}

// Reviewer answers reviews of a cell, or of a cluster, before ctx ends.
type Reviewer interface {
	Review(ctx context.Context, place string, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
}

// Protection decides what the server is asked. Package webhook implements it.
type Protection interface {
	// Review answers the review of a removal of a cell before ctx ends. ctx is marked by reviews.FromUnprovenCaller unless only the API server of
	// the cell can have sent it.
	Review(ctx context.Context, cell string, review *admissionv1.AdmissionRequest) removal.Answer
	// ReviewProtector answers the review of a protector that is to be stored in a core.
	ReviewProtector(core string, review *admissionv1.AdmissionRequest) removal.Answer
	// PeerHandler serves the requests of other replicas. It trusts its callers.
	PeerHandler() http.Handler
	// HasSingleCell reports whether there is exactly one cell, and no further cell can appear.
	HasSingleCell() bool
	// CallerLabel returns the label of the scope of a caller for metrics. The number of labels is bounded.
	CallerLabel(scope string) string
	// Ready returns the reason why reviews cannot be decided yet; nil when they can.
	Ready() error
	// Wait returns when nothing works in the background any more, within reviews.GiveBackTimeout after the last review.
	Wait()
}

// SetUp prepares the server. Call it before all other methods.
func (s *Server) SetUp(p Protection, registry prometheus.Registerer, tracer *tracing.Tracer, log logr.Logger) {
	s.protection, s.metrics, s.tracer, s.log = p, newMetrics(registry), tracer, log
	s.bodyLimiter = newBodyLimiter(maxBytesInFlight)
}

// ShareWith tells the server the replicas with which it shares the connections of API servers: self is its own address, as the others use it, and
// all returns the addresses of all. It returns the client for calls to them, which proves that this is a replica.
func (s *Server) ShareWith(self string, all func() []string) *http.Client {
	s.replicas = func() int {
		addresses := all()
		if slices.Contains(addresses, self) {
			return len(addresses)
		}
		return len(addresses) + 1
	}
	return s.identity().client()
}

func (s *Server) identity() identity {
	return identity{certificate: func() (*tls.Certificate, error) {
		watcher := s.watcher.Load()
		if watcher == nil {
			return nil, errors.New("no certificate is served yet")
		}
		return watcher.GetCertificate(nil)
	}}
}

// Start serves until ctx ends, and then answers the reviews in flight.
func (s *Server) Start(ctx context.Context) error {
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	if err := s.startCallerAuthentication(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	s.watcher.Load().RegisterCallback(s.metrics.setCertificateExpiry) // RegisterCallback also calls it at once
	replicas := s.replicas
	if replicas == nil {
		replicas = func() int { return 1 }
	}
	pace := newConnectionPacer(replicas)
	server := &http.Server{
		Handler: s.handler(pace), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: readTimeout,
		WriteTimeout: readTimeout + reviews.MaxTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaderBytes,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams}, ConnContext: pace.withConn, ConnState: pace.observe,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	s.log.Info("Serving reviews", "address", listener.Addr().String(), "clientCertificates", s.ClientCAFile != "", "audit", s.Audit)
	if s.ClientCAFile == "" && s.CallerKeys == "" {
		s.log.Info("Accepting reviews from any client that reaches this address: " +
			"set --client-ca and --client-name or --caller-keys, or restrict access by a NetworkPolicy")
	}
	select {
	case err := <-failed:
		return fmt.Errorf("serve reviews on %s: %w", s.Listen, err)
	case <-ctx.Done():
	}
	return s.stop(context.WithoutCancel(ctx), server)
}

// ShutdownTimeout is how long Start may take to return after its context has ended. A process that exits earlier loses reviews
// in flight.
func (s *Server) ShutdownTimeout() time.Duration {
	return s.Drain + drainTimeout + reviews.GiveBackTimeout
}

func (s *Server) stop(ctx context.Context, server *http.Server) error {
	s.draining.Store(true)
	s.log.Info("Draining reviews")
	<-time.After(s.Drain)
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	err := server.Shutdown(ctx)
	s.protection.Wait()
	if err != nil {
		return fmt.Errorf("drain reviews: %w", err)
	}
	s.log.Info("Drained reviews")
	return nil
}

// Address returns the host:port that is served; empty until the server listens.
func (s *Server) Address() string {
	if address := s.address.Load(); address != nil {
		return address.String()
	}
	return ""
}

// Ready returns nil when reviews can be decided: the server listens and has read the protectors and Cells of all cores.
func (s *Server) Ready(*http.Request) error {
	if s.draining.Load() {
		return errors.New("draining")
	}
	if s.address.Load() == nil {
		return errors.New("not listening yet")
	}
	return s.protection.Ready()
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: all replicas answer.
func (s *Server) NeedLeaderElection() bool { return false }

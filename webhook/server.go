package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

const (
	// maxReviewBytes limits the body that a client can make the webhook read. The API server's own objects are below 2
	// MiB.
	maxReviewBytes = 8 << 20
	// maxHeaderBytes limits the headers of a request.
	maxHeaderBytes = 64 << 10
	// maxStreams limits the concurrent reviews of one HTTP/2 connection; a client with more opens another.
	maxStreams = 250
	// readTimeout is how long a client may take to send a request.
	readTimeout = 30 * time.Second
	// defaultReviewTimeout applies to clients that do not send a timeout.
	defaultReviewTimeout = 10 * time.Second
	// maxReviewTimeout is the longest timeout of a webhook that an API server accepts.
	maxReviewTimeout = 30 * time.Second
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
	// Audit admits all removals that would be refused, with a warning.
	Audit bool

	Protection *Protection
	// Scheduling answers reviews of pods and templates that are to be stored; nil when scheduling is off.
	Scheduling Reviewer
	// Roots answers reviews of deletions of objects that floors depend on, in a cluster as webhookconfig.RootGuardPath
	// names it; nil when the root guard is off.
	Roots Reviewer
	Log   logr.Logger

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

// NewPeers lets this replica hand over to the other replicas and take over from them. self is its own address, as the
// others use it. all returns the addresses of all replicas.
func (s *Server) NewPeers(self string, all func() []string) *Peers {
	s.replicas = func() int {
		addresses := all()
		if slices.Contains(addresses, self) {
			return len(addresses)
		}
		return len(addresses) + 1
	}
	return &Peers{Self: self, All: all, Client: s.identity().client()}
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
	s.watcher.Load().RegisterCallback(s.Protection.metrics.setCertificateExpiry) // RegisterCallback also calls it at once
	replicas := s.replicas
	if replicas == nil {
		replicas = func() int { return 1 }
	}
	pace := newConnectionPacer(replicas)
	server := &http.Server{
		Handler: s.handler(pace), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: readTimeout,
		WriteTimeout: readTimeout + maxReviewTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaderBytes,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams}, ConnContext: pace.withConn, ConnState: pace.observe,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	s.Log.Info("Serving reviews", "address", listener.Addr().String(), "clientCertificates", s.ClientCAFile != "", "audit", s.Audit)
	if s.ClientCAFile == "" && s.CallerKeys == "" {
		s.Log.Info("Accepting reviews from any client that reaches this address: " +
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
func (s *Server) ShutdownTimeout() time.Duration { return s.Drain + drainTimeout + giveBackTimeout }

func (s *Server) stop(ctx context.Context, server *http.Server) error {
	s.draining.Store(true)
	s.Log.Info("Draining reviews")
	<-time.After(s.Drain)
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	err := server.Shutdown(ctx)
	s.Protection.returner.background.Wait()
	if err != nil {
		return fmt.Errorf("drain reviews: %w", err)
	}
	s.Log.Info("Drained reviews")
	return nil
}

// Address returns the host:port that is served; empty until the server listens.
func (s *Server) Address() string {
	if address := s.address.Load(); address != nil {
		return address.String()
	}
	return ""
}

func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	watcher, err := certwatcher.New(s.CertFile, s.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", s.CertFile, s.KeyFile, err)
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			s.Log.Error(err, "Stopped reloading certificates")
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
	return tls.NewListener(newLimitedListener(listener, maxConnections, s.Protection.metrics.evictedConnections.Inc), config), nil
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

// Ready returns nil when reviews can be decided: the server listens and has read the protectors and Cells of all cores.
func (s *Server) Ready(*http.Request) error {
	if s.draining.Load() {
		return errors.New("draining")
	}
	if s.address.Load() == nil {
		return errors.New("not listening yet")
	}
	for _, core := range s.Protection.cores {
		if !core.synced.Load() {
			return fmt.Errorf("PodProtectors of core cluster %q are not read yet", core.name)
		}
		if core.cellRegistry != nil && !core.cellRegistry.HasSynced() {
			return fmt.Errorf("the Cells of core cluster %q are not read yet", core.name)
		}
	}
	return nil
}

func (s *Server) handler(pace *connectionPacer) http.Handler {
	s.bodyLimiter = newBodyLimiter(maxBytesInFlight)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /cells/{cell}/validate", func(w http.ResponseWriter, r *http.Request) { s.review(w, r, pace) })
	mux.HandleFunc("POST "+webhookconfig.CorePath("{core}"), s.reviewProtector)
	if s.Scheduling != nil {
		mux.HandleFunc("POST "+webhookconfig.SchedulePath("{cell}"), s.reviewScheduling)
	}
	if s.Roots != nil {
		mux.HandleFunc("POST "+webhookconfig.RootGuardPath("")+"{cluster...}", s.reviewRoot)
	}
	mux.Handle(peersPath, s.identity().requirePeer(s.Protection.PeerHandler()))
	authenticated := s.callers.authenticate(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			// The server ends soon: a client that kept using the connection would lose it in the middle of a review.
			w.Header().Set("Connection", "close")
		}
		authenticated.ServeHTTP(w, r)
	})
}

func (s *Server) review(w http.ResponseWriter, r *http.Request, pace *connectionPacer) {
	ctx, span := s.Protection.tracer.Serve(r.Context(), r.Header, tracing.SpanReview)
	defer span.End()
	review, release := s.readRequest(w, r)
	if review == nil {
		return
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout(r))
	defer cancel()
	if !s.isProven(r) {
		ctx = fromUnprovenCaller(ctx)
	}
	answer := s.Protection.reviewMeasured(ctx, r.PathValue("cell"), review.Request)
	recordAnswer(span, r.PathValue("cell"), answer)
	if r.ProtoMajor == 1 {
		pace.wait(ctx)
	}
	if s.Audit {
		answer = answer.AdmitInAuditMode()
	}
	s.writeAnswer(w, review, r.PathValue("cell"), answer)
}

// isProven reports whether a review can come only from the API server of its cell. It has either a caller token, which
// is valid for one cell, or a certificate with a name of --client-name while the webhook serves a single cell: the
// names are not bound to a cell.
func (s *Server) isProven(r *http.Request) bool {
	return r.Context().Value(tokenCaller{}) != nil || s.ClientCAFile != "" && len(s.ClientNames) > 0 && s.Protection.cells.isSingle()
}

// reviewScheduling answers a review of a pod or a template that is to be stored in a cell.
func (s *Server) reviewScheduling(w http.ResponseWriter, r *http.Request) {
	ctx, span := s.Protection.tracer.Serve(r.Context(), r.Header, tracing.SpanSchedule)
	defer span.End()
	review, release := s.readRequest(w, r)
	if review == nil {
		return
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout(r))
	defer cancel()
	s.writeResponse(w, review, s.Scheduling.Review(ctx, r.PathValue("cell"), review.Request))
}

// reviewProtector answers a review of a protector that is to be stored in a core.
func (s *Server) reviewProtector(w http.ResponseWriter, r *http.Request) {
	if review, release := s.readRequest(w, r); review != nil {
		defer release()
		s.writeAnswer(w, review, "", s.Protection.ReviewProtector(r.PathValue("core"), review.Request))
	}
}

// readRequest reads a review. It also returns release, which the caller calls when the review is answered. After an error
// it sends the reason to the client and returns nil.
func (s *Server) readRequest(w http.ResponseWriter, r *http.Request) (review *admissionv1.AdmissionReview, release func()) {
	body, release, err := s.bodyLimiter.read(http.MaxBytesReader(w, r.Body, maxReviewBytes), r.ContentLength)
	code := http.StatusBadRequest
	if errors.Is(err, errOverloaded) {
		s.Protection.metrics.overloads.Inc()
		code = http.StatusServiceUnavailable
	}
	if err == nil {
		review, err = readReview(body)
	}
	if err == nil {
		markReviewReceived(r.Context())
	}
	if err != nil {
		release()
		http.Error(w, fmt.Sprintf("Breakwater cannot read the review: %v", err), code)
		return nil, nil
	}
	return review, release
}

// writeAnswer sends the answer to a review of a cell; an empty cell means that the review belongs to no cell.
func (s *Server) writeAnswer(w http.ResponseWriter, review *admissionv1.AdmissionReview, cell string, answer removal.Answer) {
	audit := answer.Audit()
	if cell != "" {
		audit[v1alpha1.AuditCell] = cell
	}
	s.writeResponse(w, review, &admissionv1.AdmissionResponse{
		UID: review.Request.UID, Allowed: answer.Allowed, Result: answer.Status, Warnings: answer.Warnings, AuditAnnotations: audit,
	})
}

func (s *Server) writeResponse(w http.ResponseWriter, review *admissionv1.AdmissionReview, response *admissionv1.AdmissionResponse) {
	w.Header().Set("Content-Type", "application/json")
	err := json.NewEncoder(w).Encode(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: review.APIVersion, Kind: "AdmissionReview"}, Response: response,
	})
	if err != nil {
		s.Log.V(1).Info("Could not send answer to client", "error", err.Error())
	}
}

// readReview decodes the body that an API server sends. The objects in it stay JSON.
func readReview(body []byte) (*admissionv1.AdmissionReview, error) {
	review := &admissionv1.AdmissionReview{}
	if err := removal.DecodeJSON(body, review); err != nil {
		return nil, err
	}
	if review.Request == nil || review.APIVersion != admissionv1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("want an AdmissionReview of %s with a request", admissionv1.SchemeGroupVersion)
	}
	return review, nil
}

// reviewTimeout is how long the API server waits, according to its URL, less the time that the answer needs to get there:
// a timely answer with a reason is better than a timeout without one.
func reviewTimeout(r *http.Request) time.Duration {
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || timeout <= 0 {
		timeout = defaultReviewTimeout
	}
	timeout = min(timeout, maxReviewTimeout)
	return timeout - min(timeout/10, 500*time.Millisecond)
}

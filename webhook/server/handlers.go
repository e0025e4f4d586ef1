package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

// defaultReviewTimeout applies to clients that do not send a timeout.
const defaultReviewTimeout = 10 * time.Second

// Handler answers requests as Start does, but does not pace the answers to connections.
func (s *Server) Handler() http.Handler {
	return s.handler(newConnectionPacer(func() int { return 1 }))
}

// handler routes reviews, and requests of other replicas, after authenticating their callers.
func (s *Server) handler(pace *connectionPacer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /cells/{cell}/validate", func(w http.ResponseWriter, r *http.Request) { s.review(w, r, pace) })
	mux.HandleFunc("POST "+webhookconfig.CorePath("{core}"), s.answer("core", s.reviewProtector))
	if s.Scheduling != nil {
		mux.HandleFunc("POST "+webhookconfig.SchedulePath("{cell}"), s.traced(tracing.SpanSchedule, s.answer("cell", s.Scheduling.Review)))
	}
	if s.Roots != nil {
		mux.HandleFunc("POST "+webhookconfig.RootGuardPath("")+"{cluster...}", s.answer("cluster", s.Roots.Review))
	}
	mux.Handle(peersPath, s.identity().requirePeer(s.protection.PeerHandler()))
	authenticated := s.callers.authenticate(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			// The server ends soon: a client that kept using the connection would lose it in the middle of a review.
			w.Header().Set("Connection", "close")
		}
		authenticated.ServeHTTP(w, r)
	})
}

// review answers a review of the removal of a pod of a cell.
func (s *Server) review(w http.ResponseWriter, r *http.Request, pace *connectionPacer) {
	ctx, span := s.tracer.Serve(r.Context(), r.Header, tracing.SpanReview)
	defer span.End()
	ctx, cancel := untilAnswer(ctx, r)
	defer cancel()
	review, release := s.readRequest(w, r)
	if review == nil {
		return
	}
	defer release()
	if !s.isProven(r) {
		ctx = reviews.FromUnprovenCaller(ctx)
	}
	answer := s.protection.Review(ctx, r.PathValue("cell"), review.Request)
	recordAnswer(span, r.PathValue("cell"), answer)
	if r.ProtoMajor == 1 {
		pace.wait(ctx)
	}
	if s.Audit {
		answer = answer.AdmitInAuditMode()
	}
	s.write(w, review, s.response(r.PathValue("cell"), answer))
}

// isProven reports whether a review can come only from the API server of its cell. It has either a caller token, which
// is valid for one cell, or a certificate with a name of --client-name while the webhook serves a single cell: the
// names are not bound to a cell.
func (s *Server) isProven(r *http.Request) bool {
	return r.Context().Value(tokenCaller{}) != nil || s.ClientCAFile != "" && len(s.ClientNames) > 0 && s.protection.HasSingleCell()
}

// traced handles requests in a span, whose parent the client may name.
func (s *Server) traced(span string, handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, span := s.tracer.Serve(r.Context(), r.Header, span)
		defer span.End()
		handle(w, r.WithContext(ctx))
	}
}

// answer handles reviews of the place that a part of the path names, such as a cell, with the responses of review. Only removals of pods need
// more: see review.
func (s *Server) answer(
	place string, review func(ctx context.Context, place string, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse,
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := untilAnswer(r.Context(), r)
		defer cancel()
		if read, release := s.readRequest(w, r); read != nil {
			defer release()
			s.write(w, read, review(ctx, r.PathValue(place), read.Request))
		}
	}
}

// reviewProtector answers a review of a protector that is to be stored in a core.
func (s *Server) reviewProtector(_ context.Context, core string, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return s.response("", s.protection.ReviewProtector(core, request))
}

// readRequest reads a review. It also returns release, which the caller calls when the review is answered. After an error
// it sends the reason to the client and returns nil.
func (s *Server) readRequest(w http.ResponseWriter, r *http.Request) (review *admissionv1.AdmissionReview, release func()) {
	body, release, err := s.bodyLimiter.read(http.MaxBytesReader(w, r.Body, reviews.MaxBytes), r.ContentLength)
	code := http.StatusBadRequest
	if errors.Is(err, errOverloaded) {
		s.metrics.overloads.Inc()
		code = http.StatusServiceUnavailable
	}
	if err == nil {
		review, err = reviews.Decode(body)
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

// untilAnswer returns a context that ends when the answer to a request must be sent. The time that the client takes to send the review counts: call it
// before the review is read.
func untilAnswer(ctx context.Context, r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, reviews.AnswerWithin(reviews.Timeout(r, defaultReviewTimeout)))
}

// response returns the response to a review of a cell; an empty cell means that the review belongs to no cell.
func (s *Server) response(cell string, answer removal.Answer) *admissionv1.AdmissionResponse {
	answer = answer.WithHelp(s.HelpURL)
	audit := answer.Audit()
	if cell != "" {
		audit[v1alpha1.AuditCell] = cell
	}
	return &admissionv1.AdmissionResponse{Allowed: answer.Allowed, Result: answer.Status, Warnings: answer.Warnings, AuditAnnotations: audit}
}

func (s *Server) write(w http.ResponseWriter, review *admissionv1.AdmissionReview, response *admissionv1.AdmissionResponse) {
	if err := reviews.Write(w, review, response); err != nil {
		s.log.V(1).Info("Could not send answer to client", "error", err.Error())
	}
}

// recordAnswer records the answer to a review.
func recordAnswer(span trace.Span, cell string, answer removal.Answer) {
	if !span.IsRecording() {
		return
	}
	span.AddEvent(tracing.EventDecided)
	span.SetAttributes(attribute.String(tracing.Cell, cell), attribute.String(tracing.Operation, string(answer.Operation)),
		attribute.String(tracing.Verdict, string(answer.Verdict)), attribute.Bool(tracing.Allowed, answer.Allowed),
		attribute.StringSlice(tracing.Protectors, slices.Clone(answer.Protectors)))
}

package sharding

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

// defaultReviewTimeout applies to clients that send no timeout.
const defaultReviewTimeout = 2 * time.Second

// Handler answers reviews of objects of rings.
type Handler struct {
	// ringOf returns a ring by its name; nil if it does not exist.
	ringOf func(ctx context.Context, name string) (*v1alpha1.ClusterRing, error)
	// shardsOf returns the shards of a ring; nil when they have not been read yet.
	shardsOf func(*v1alpha1.ClusterRing) *ring.Shards
	// find returns the placement of the object that controls another one, or the reason why it is unknown.
	find func(context.Context, *Object) (ring.Placement, Reason)
	// triggerResync triggers a resync of a ring.
	triggerResync func(ring string)
	// stopping is closed when the process is about to exit.
	stopping <-chan struct{}
	loads    *loadEstimates
	metrics  *reviews.Metrics
	log      logr.Logger
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began, wait := time.Now(), reviews.AnswerWithin(reviews.Timeout(r, defaultReviewTimeout))
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	// The client has to send the review within its own timeout. The server itself sets no limit.
	_ = http.NewResponseController(w).SetReadDeadline(began.Add(wait))
	select {
	case <-h.stopping:
		w.Header().Set("Connection", "close") // the next review goes to another replica
	default:
	}
	review, err := readRequest(w, r)
	if err != nil {
		// Without a review there is nothing to allow. The API server treats this as a missing answer, and applies
		// failurePolicy.
		code := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			code = http.StatusRequestEntityTooLarge
		}
		http.Error(w, fmt.Sprintf("Breakwater cannot read the review: %v", err), code)
		h.metrics.Observe(ctx, reviews.Unknown, string(Invalid), time.Since(began))
		return
	}
	ringName, answer, patch := h.review(ctx, r.PathValue("ring"), review.Request)
	h.writeResponse(w, review, answer, patch)
	h.metrics.Observe(ctx, ringName, string(answer.Reason), time.Since(began))
}

// review answers even after a panic. known is the name of the ring, if it exists.
func (h *Handler) review(ctx context.Context, name string, request *admissionv1.AdmissionRequest) (ringName string, answer Answer, patch []byte) {
	ringName = reviews.Unknown
	defer func() {
		if fault := recover(); fault != nil {
			h.log.Error(fmt.Errorf("panic: %v", fault), "Allowed request without review after a panic",
				"ring", name, "resource", request.Resource.String(), "stack", string(debug.Stack()))
			answer, patch = Answer{Reason: Failed}, nil
		}
	}()
	of, err := h.ringOf(ctx, name)
	if err != nil {
		return ringName, Answer{Reason: NotReady}, nil
	}
	if of != nil {
		ringName = of.Name
	}
	object, reason := Read(of, request)
	if reason != "" {
		return ringName, Answer{Reason: reason}, nil
	}
	answer = h.decide(ctx, object)
	if patch, err = object.Patch(answer); err != nil {
		h.log.Error(err, "Could not encode patch", "ring", ringName)
		return ringName, Answer{Reason: Failed}, nil
	}
	if dry := request.DryRun; dry == nil || !*dry {
		h.applySideEffects(object, answer)
	}
	return ringName, answer, patch
}

// decide determines the shard of an object.
func (h *Handler) decide(ctx context.Context, o *Object) Answer {
	shards := h.shardsOf(o.ring)
	if shards == nil {
		return o.Stay(NotReady)
	}
	if !o.IsControlled() {
		return o.Assign(shards, h.loads.loadOf(o.ring, shards))
	}
	controller, reason := h.find(ctx, o)
	switch reason {
	case "":
		return o.Follow(shards, controller)
	case ControllerUnread:
		return o.Stay(reason)
	default:
		return Answer{Reason: reason}
	}
}

// applySideEffects applies the side effects of an answer. A dry run has none.
func (h *Handler) applySideEffects(o *Object, answer Answer) {
	if answer.Resync {
		h.triggerResync(o.ring.Name)
	}
	shards := h.shardsOf(o.ring)
	if answer.Shard == "" || answer.Reason == PutBack || shards == nil {
		return
	}
	from := o.previous.Shard
	if !shards.IsAvailable(from) {
		from = ""
	}
	h.loads.recordAssignment(o.ring, from, answer.Shard)
}

// readRequest reads and decodes a review.
func readRequest(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionReview, error) {
	if r.Method != http.MethodPost {
		return nil, fmt.Errorf("method %s: want POST", r.Method)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, reviews.MaxBytes))
	if err != nil {
		return nil, err
	}
	return reviews.Decode(body)
}

func (h *Handler) writeResponse(w http.ResponseWriter, review *admissionv1.AdmissionReview, answer Answer, patch []byte) {
	response := &admissionv1.AdmissionResponse{
		Allowed: true, AuditAnnotations: map[string]string{"reason": string(answer.Reason)},
	}
	if patch != nil {
		kind := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = patch, &kind
		response.AuditAnnotations["shard"] = answer.Shard
	}
	if err := reviews.Write(w, review, response); err != nil {
		h.log.V(1).Info("Could not send answer to client", "error", err.Error())
	}
}

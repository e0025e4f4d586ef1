package scheduling

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/internal/scheduling"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

// Cells gives access to the cells and to the protectors of their pods. The webhook implements it.
type Cells interface {
	HasCell(cell string) bool
	// CoresOf returns the names of the core clusters whose cell contains a pod. It returns an error while a core that
	// it needs has not been read.
	CoresOf(cell, namespace string, labels map[string]string) ([]string, error)
	// ProtectorsOf returns the protectors of the core clusters that cover the pod.
	ProtectorsOf(cores []string, cell, namespace string, labels map[string]string) []scheduling.Protector
	// CellConfig returns the client configuration of a cell. The pointer stays the same for as long as the connection
	// does.
	CellConfig(cell string) (*rest.Config, error)
}

// Handler answers reviews of pods and of workloads.
type Handler struct {
	cells    Cells
	policies *policies
	// labelsOf returns the labels of a namespace in the cluster of a cell.
	labelsOf func(ctx context.Context, cell, namespace string) (map[string]string, error)
	counts   *policyCounts
	// audit admits objects that would be rejected.
	audit   bool
	metrics *metrics
	log     logr.Logger
}

// Review answers before ctx ends, even after errors and panics.
func (h *Handler) Review(ctx context.Context, cell string, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	began := time.Now()
	answer := h.answer(ctx, cell, request)
	if answer.Err != nil {
		h.log.Info("Stored object without its scheduling policies", "cell", cell, "reason", answer.Reason, "why", answer.Err.Error(),
			"kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name)
	}
	dryRun := ptr.Deref(request.DryRun, false)
	if !dryRun {
		h.metrics.observe(ctx, h.label(cell), &answer, time.Since(began))
		h.counts.add(answer)
	}
	recordAnswer(trace.SpanFromContext(ctx), cell, request, &answer)
	response := answer.Response()
	if dryRun && answer.Denial == "" {
		response.Warnings = slices.Concat(answer.explanation(), response.Warnings)
	}
	if h.audit {
		admitWithWarning(response)
	}
	return response
}

// recordAnswer records the answer on the span of a review.
func recordAnswer(span trace.Span, cell string, request *admissionv1.AdmissionRequest, answer *Answer) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String(tracing.Cell, cell), attribute.String(tracing.Reason, string(answer.Reason)),
		attribute.String(tracing.Kind, request.Kind.Kind), attribute.String(tracing.Namespace, request.Namespace),
		attribute.String(tracing.Name, request.Name), attribute.Bool(tracing.Allowed, answer.Denial == ""))
	tracing.RecordError(span, answer.Err)
}

// label returns the label of a cell for metrics. Unknown cells share one label, so that a client cannot create time
// series.
func (h *Handler) label(cell string) string {
	if h.cells.HasCell(cell) {
		return cell
	}
	return reviews.Unknown
}

func (h *Handler) answer(ctx context.Context, cell string, request *admissionv1.AdmissionRequest) (answer Answer) {
	defer func() {
		if fault := recover(); fault != nil {
			answer = Answer{Reason: Failed, Err: fmt.Errorf("panic: %v\n%s", fault, debug.Stack())}
		}
	}()
	kind := schema.GroupKind{Group: request.Kind.Group, Kind: request.Kind.Kind}
	update := request.Operation == admissionv1.Update
	_, supported := scheduling.PathOf(kind)
	switch {
	case !h.cells.HasCell(cell):
		return Answer{Reason: UnknownCell, Err: fmt.Errorf("cell %q does not exist", cell)}
	case !supported || request.SubResource != "" || !update && request.Operation != admissionv1.Create:
		return Answer{Reason: Ignored}
	}
	object, err := scheduling.Read(kind, update, request.Object.Raw)
	if err != nil {
		return Answer{Reason: Invalid, Err: err}
	}
	object.Namespace = cmp.Or(request.Namespace, object.Namespace)
	return h.decide(ctx, cell, object)
}

// decide applies the policies and the protectors of the core clusters whose cell contains the object's pods.
func (h *Handler) decide(ctx context.Context, cell string, o *scheduling.Object) Answer {
	cores, err := h.cells.CoresOf(cell, o.Namespace, o.Labels)
	switch {
	case err != nil:
		return Answer{Reason: NotReady, Err: err}
	case len(cores) == 0:
		return Answer{Reason: OtherCell}
	}
	current := h.policies.currentSnapshot()
	if core, ok := current.firstUnsynced(cores); ok {
		return Answer{Reason: NotReady, Err: fmt.Errorf("the scheduling policies of core cluster %q are not read yet", core)}
	}
	var labels map[string]string
	if current.clusterwide {
		if labels, err = h.labelsOf(ctx, cell, o.Namespace); err != nil {
			return Answer{Reason: NamespaceUnread, Err: err}
		}
	}
	protectors := h.cells.ProtectorsOf(cores, cell, o.Namespace, o.Labels)
	chosen := slices.DeleteFunc(current.set.For(o, labels, protectors), func(p *scheduling.Policy) bool { return !slices.Contains(cores, p.Core) })
	if len(chosen) == 0 && !scheduling.HasSpread(o, protectors) {
		return Answer{Reason: NoPolicy}
	}
	result, err := scheduling.Merge(o, chosen, protectors)
	answer := Answer{Reason: Unchanged, Result: result}
	switch {
	case err != nil:
		return Answer{Reason: Failed, Err: err}
	case result.Denial != "":
		answer.Reason = Rejected
	case result.Patch != nil:
		answer.Reason = Injected
	}
	return answer
}

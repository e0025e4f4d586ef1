package webhook

import (
	"context"
	"errors"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// podReviewer answers the reviews of pods: it finds out which pod a review is about, and has its removal decided.
type podReviewer struct {
	cells      *cells
	reader     *podReader
	decider    *decider
	breakGlass *breakGlass
	refusals   *refusalReporter
	tracer     *tracing.Tracer
	// recorder records removals for node guards; nil if there are none.
	recorder *removalRecorder
	// audit reports that the server admits what is refused, too.
	audit bool
}

// review answers a review of a cell. It refuses what it cannot read (rule 9).
func (v *podReviewer) review(ctx context.Context, cell string, review *admissionv1.AdmissionRequest) removal.Answer {
	if !v.cells.has(cell) {
		return removal.DenyUnknownCell(cell)
	}
	request, guarded, err := removal.Parse(review)
	switch {
	case err != nil:
		return removal.DenyMalformed(err)
	case !guarded:
		return removal.AllowUncharged(removal.VerdictUnguarded)
	}
	if request.Pod == nil {
		if request.Pod, err = v.reader.read(ctx, cell, request); err != nil {
			return removal.DenyUnreadablePod(cell, request, errors.New(clientReason(err)))
		}
		if request.Pod == nil {
			return v.denyNoPod(cell, request)
		}
		if why := request.FailedPrecondition(request.Pod); why != "" {
			return removal.DenyFailedPrecondition(request, why)
		}
	}
	recordRequest(v.tracer.Of(ctx), request)
	if request.IsAlwaysAllowed() { // rule 3, before anything that could fail
		answer := removal.AllowUncharged(removal.VerdictNotAvailable)
		answer.Operation = request.Operation
		return answer
	}
	request, exists, unread := v.breakGlass.confirm(ctx, cell, request)
	if !exists {
		return removal.DenyNoPod(cell, request)
	}
	answer := v.protect(ctx, cell, request)
	if unread != nil && !answer.Allowed {
		answer = removal.DenyUnreadablePod(cell, request, errors.New(clientReason(unread)))
	}
	answer.Operation = request.Operation
	return answer
}

// denyNoPod denies the removal of a pod that does not exist. It tells a dry run, such as that of kubectl breakwater doctor, which core is known to make
// the webhook refuse removals of pods that exist.
func (v *podReviewer) denyNoPod(cell string, r removal.Request) removal.Answer {
	if err := v.decider.cores.knownErr(); err != nil && r.DryRun {
		return removal.DenyNoPodOfDryRun(cell, r, err.Error())
	}
	return removal.DenyNoPod(cell, r)
}

// protect asks the protectors of a pod that is scheduled and alive. A break-glass removal is admitted even if they
// refuse.
func (v *podReviewer) protect(ctx context.Context, cell string, r removal.Request) removal.Answer {
	answer := v.decider.reserveOrRefuse(ctx, cell, r)
	var refusal *removal.Answer
	if answer.Allowed || r.IsBreakGlass() || v.audit {
		refusal = v.recorder.record(ctx, cell, r) // rule N3
	}
	switch {
	case refusal != nil:
		answer = *refusal // a reservation stays until the client tries again, or the admission deadline
	case r.IsBreakGlass():
		answer = v.breakGlass.admit(cell, r, answer)
	}
	if !answer.Allowed {
		v.refusals.report(ctx, cell, r, answer)
	}
	return answer
}

// podReader reads pods from their cells.
type podReader struct {
	cells  *cells
	cores  coreSet
	tracer *tracing.Tracer
}

// read reads a pod from its cell: for an eviction, whose review does not contain the pod, and for a break-glass
// removal, whose review is not trusted. It returns nil if the pod does not exist.
func (r *podReader) read(ctx context.Context, cell string, request removal.Request) (*corev1.Pod, error) {
	client, err := r.cells.client(cell)
	if err != nil {
		return nil, err
	}
	ctx, span := r.tracer.Call(ctx, tracing.SpanReadPod)
	defer span.End()
	var pod *corev1.Pod
	err = r.probeOf(cell).ask(ctx, func(ctx context.Context) (err error) {
		pod, err = client.CoreV1().Pods(request.Namespace).Get(ctx, request.PodName, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	tracing.RecordError(span, err)
	return pod, err
}

// probeOf returns the probe of the core whose API server is that of the cell, too, as in a single cluster; one that knows nothing if there is none.
func (r *podReader) probeOf(cell string) coreProbe {
	if config, err := r.cells.Config(cell); err == nil {
		for _, core := range r.cores {
			if core.host == config.Host {
				return core.reserver.probe
			}
		}
	}
	return coreProbe{}
}

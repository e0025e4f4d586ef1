package webhook

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// Protection answers reviews. It keeps no durable state of its own: that state is in the core clusters.
type Protection struct {
	cores []*core
	// cells reach the worker clusters, to read the pod of an eviction.
	cells   *cells
	metrics *metrics
	// tracer creates spans; nil creates none.
	tracer        *tracing.Tracer
	log           logr.Logger
	refusalEvents *refusalEvents
	retrier       *retrier
	// nodes return the domains that pods are in.
	nodes *nodeLabelCache
	// verifier compares the pods of unauthenticated callers with those of the cells.
	verifier verifier
	// preemptionBackoff delays repeated refusals to the scheduler.
	preemptionBackoff preemptionBackoff
	now               func() time.Time
	// background tracks the reservations that are still being given back.
	background sync.WaitGroup
}

// Review answers one review of a cell, before ctx ends. It treats the caller as the API server of the cell, unless ctx
// is marked by fromUnprovenCaller.
func (p *Protection) Review(ctx context.Context, cell string, review *admissionv1.AdmissionRequest) removal.Answer {
	answer := p.review(ctx, cell, review)
	answer.Operation = cmp.Or(answer.Operation, removal.OperationOf(review))
	if !answer.Allowed && answer.DeniedBy == nil {
		p.recordUnattributed(cell, review, answer)
	}
	return answer
}

func (p *Protection) review(ctx context.Context, cell string, review *admissionv1.AdmissionRequest) removal.Answer {
	if !p.cells.has(cell) {
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
		if request.Pod, err = p.podOf(ctx, cell, request); err != nil {
			return removal.DenyUnreadablePod(cell, request, err)
		}
		if request.Pod == nil {
			return removal.DenyNoPod(cell, request)
		}
	}
	recordRequest(p.tracer.Of(ctx), request)
	if request.IsAlwaysAllowed() { // before anything that could fail
		answer := removal.AllowUncharged(removal.VerdictNotAvailable)
		answer.Operation = request.Operation
		return answer
	}
	var unread error
	if request.Operation != v1alpha1.OperationEvict && request.IsBreakGlass() {
		var pod *corev1.Pod
		if pod, unread = p.podOf(ctx, cell, request); pod == nil && unread == nil {
			return removal.DenyNoPod(cell, request)
		}
		request = request.WithBreakGlassOf(pod)
	}
	answer := p.protect(ctx, cell, request)
	if unread != nil && !answer.Allowed {
		answer = removal.DenyUnreadablePod(cell, request, unread)
	}
	answer.Operation = request.Operation
	return answer
}

// podOf reads a pod from its cell: for an eviction, whose review does not contain the pod, and for a break-glass
// removal, whose review is not trusted. It returns nil if the pod does not exist.
func (p *Protection) podOf(ctx context.Context, cell string, r removal.Request) (*corev1.Pod, error) {
	client, err := p.cells.client(cell)
	if err != nil {
		return nil, err
	}
	ctx, span := p.tracer.Call(ctx, tracing.SpanReadPod)
	defer span.End()
	pod, err := client.CoreV1().Pods(r.Namespace).Get(ctx, r.PodName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	tracing.RecordError(span, err)
	return pod, err
}

// protectorRef identifies a protector of a core.
type protectorRef struct {
	core *core
	key  types.NamespacedName
}

func (r protectorRef) String() string { return r.core.name + "/" + r.key.String() }

// ref returns the reference of the protector that is charged.
func (p *Protection) ref(c removal.Charge) protectorRef { return protectorRef{p.core(c.Core), c.Key} }

// protect asks the protectors of a pod that is scheduled and alive. A break-glass removal is admitted even if they
// refuse.
func (p *Protection) protect(ctx context.Context, cell string, r removal.Request) removal.Answer {
	answer := p.reserveOrRefuse(ctx, cell, r)
	if r.IsBreakGlass() {
		answer = p.breakGlass(cell, r, answer)
	}
	if !answer.Allowed {
		if answer.DeniedBy != nil {
			by := p.ref(*answer.DeniedBy)
			p.metrics.refusals.inc(by.core.name, by.key)
			p.refusalEvents.recordRefusal(by.core, cell, r, answer)
			p.retrier.enqueue(cell, r, answer.Verdict, by)
		}
		p.preemptionBackoff.delay(ctx, r, time.Now())
	}
	return answer
}

// reserveOrRefuse reserves the removal of a pod with all its protectors, or returns the refusal. It follows the same steps as
// removal.DecideDryRun, and reserves.
func (p *Protection) reserveOrRefuse(ctx context.Context, cell string, r removal.Request) removal.Answer {
	covering, belongs, err := p.covering(ctx, cell, r)
	if err != nil {
		return removal.DenyUnknown(r, err)
	}
	if err := p.refreshForMinReady(ctx, cell, r, covering); err != nil {
		return removal.DenyUnknown(r, err)
	}
	charges, verdict := removal.ChargesFor(covering, belongs, cell, r, p.now())
	if len(charges) == 0 {
		return removal.AllowUncharged(verdict)
	}
	attempt := r.Attempt(cell, p.now(), newToken())
	if len(charges) > 1 {
		attempt.RevocableUntil = attempt.At.Add(giveBackTimeout)
	}
	if refusal := removal.DenyVanished(charges, r); refusal != nil {
		return *refusal
	}
	p.resolveDomains(ctx, cell, r, charges)
	if refusal := removal.Preview(charges, attempt, r); refusal != nil {
		return *refusal
	}
	if r.DryRun {
		return removal.AllowCharged(removal.VerdictDryRun, charges)
	}
	if refusal := p.verify(ctx, cell, r); refusal != nil {
		return *refusal
	}
	return p.reserveAll(ctx, charges, attempt, r)
}

// newToken returns a random token for an attempt. The probability that two of a million attempts for one pod share a
// token is 3e-8.
func newToken() string { return strconv.FormatUint(rand.Uint64(), 36) } //nolint:gosec // it must differ, not be secret

// covering returns the protectors that cover a pod, in their newest known state. belongs reports whether the pod
// belongs to the cell in any core cluster.
func (p *Protection) covering(ctx context.Context, cell string, r removal.Request) (covering []removal.Charge, belongs bool, err error) {
	for _, core := range p.cores {
		if !core.synced.Load() {
			return nil, false, fmt.Errorf("the PodProtectors of core cluster %q have not been read yet", core.name)
		}
		if !core.hasPod(cell, r.Namespace, r.Pod.Labels) {
			continue // the API server asks about another cell of the same cluster, too
		}
		belongs = true
		leavesCell := r.Relabeled != nil && !core.hasPod(cell, r.Namespace, r.Relabeled.Labels)
		for _, key := range core.coverage.covering(cell, r.Namespace, r.Pod.Labels) {
			protector, lost, err := core.newestState(ctx, key)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, false, fmt.Errorf("PodProtector %s of core cluster %q: %w", key, core.name, err)
			}
			covering = append(covering, removal.Charge{Core: core.name, Key: key, Protector: protector, Vanished: lost, LeavesCell: leavesCell})
		}
	}
	return covering, belongs, nil
}

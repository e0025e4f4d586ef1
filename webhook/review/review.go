package review

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

// Review answers one review of a cell, before ctx ends, and records its metrics. It treats the caller as the API server of
// the cell, unless ctx is marked by reviews.FromUnprovenCaller.
func (p *Protection) Review(ctx context.Context, cell string, request *admissionv1.AdmissionRequest) removal.Answer {
	began := time.Now()
	p.metrics.inFlight.Inc()
	defer p.metrics.inFlight.Dec()
	answer := p.decide(ctx, cell, request)
	answer.Operation = cmp.Or(answer.Operation, removal.OperationOf(request))
	if !answer.Allowed && answer.DeniedBy == nil {
		p.denials.reportUnattributed(cell, request, answer)
	}
	if !p.cells.has(cell) {
		cell = reviews.Unknown // a client must not be able to create time series
	}
	p.metrics.reviews.WithLabelValues(cell, string(answer.Operation), string(answer.Verdict)).Inc()
	tracing.Observe(ctx, p.metrics.duration.WithLabelValues(cell), time.Since(began).Seconds())
	if !answer.Allowed {
		p.log.V(1).Info("Denied", "cell", cell, "verdict", answer.Verdict, "reason", answer.Status.Message)
	}
	return answer
}

// decide decides a review of a pod.
func (p *Protection) decide(ctx context.Context, cell string, request *admissionv1.AdmissionRequest) removal.Answer {
	// 1. Parse what is requested. A review of an unknown cell, or a malformed one, is denied (rule 9).
	if !p.cells.has(cell) {
		return removal.Deny(&removal.Denial{Cause: removal.CauseUnknownCell}).Answer(cell, removal.Request{})
	}
	r, guarded, err := removal.Parse(request)
	if err != nil {
		return removal.Deny(&removal.Denial{Cause: removal.CauseMalformed, Detail: err.Error()}).Answer(cell, r)
	}
	if !guarded {
		return removal.Admit(removal.VerdictUnguarded).Answer(cell, r)
	}
	// 2. Read the pod of an eviction, whose review does not contain it.
	if r.Pod == nil {
		var denial *removal.Denial
		if r.Pod, denial = p.pods.ofEviction(ctx, cell, r); denial != nil {
			return removal.Deny(denial).Answer(cell, r)
		}
	}
	recordRequest(p.tracer.Of(ctx), r)
	// 3. Admit what no protector counts (rule 3), before anything that could fail.
	if r.IsAlwaysAllowed() {
		return removal.Admit(removal.VerdictNotAvailable).Answer(cell, r)
	}
	// 4. Confirm a break-glass annotation in the cell (rule 15). If that fails, the removal is decided like any other.
	r, exists, unread := p.pods.confirmBreakGlass(ctx, cell, r)
	if !exists {
		return removal.Deny(&removal.Denial{Cause: removal.CauseNoPod}).Answer(cell, r)
	}
	// 5. to 11. Decide with the protectors of the pod.
	answer := p.protect(ctx, cell, r)
	if unread != nil && !answer.Allowed {
		return removal.Deny(unread).Answer(cell, r)
	}
	return answer
}

// protect decides the removal of a pod that is scheduled and alive with its protectors, and reports the decision.
func (p *Protection) protect(ctx context.Context, cell string, r removal.Request) removal.Answer {
	// 5. to 8. Reserve with all protectors that the removal is charged to.
	decision := p.reserve(ctx, cell, r)
	if isBetweenObjects(decision) { // the first try met an object that had changed; by now the watch has usually shown which one decides
		decision = p.reserve(ctx, cell, r)
	}
	isUndecided := isBetweenObjects(decision) || decision.Denial != nil && decision.Denial.Verdict() == removal.VerdictUnknown
	if isUndecided && r.IsBreakGlass() && !r.DryRun {
		p.chargeLater(ctx, cell, r)
	}
	// 9. Record a removal without a grace period for node guards (rule N3), also one that break-glass or the audit mode admits.
	var unrecorded *removal.Denial
	if decision.Denial == nil || r.IsBreakGlass() || p.audit {
		unrecorded = p.recorder.record(ctx, cell, r)
	}
	// 10. Admit a break-glass removal over a denial.
	switch {
	case unrecorded != nil:
		decision = removal.Deny(unrecorded) // a reservation stays until the client tries again, or the admission deadline
	case r.IsBreakGlass():
		decision = decision.Force(r.BreakGlassReason())
	}
	// 11. Word the decision once, report it, and wake a denied client when there is budget again.
	answer := decision.Answer(cell, r)
	p.denials.report(ctx, cell, r, answer)
	return answer
}

// reserve reserves the removal of a pod with all its protectors. It looks at all budgets before it reserves (rule 7), with the same steps as
// removal.DecideDryRun.
func (p *Protection) reserve(ctx context.Context, cell string, r removal.Request) removal.Decision {
	// 5. Find the protectors that cover the pod, and what the removal is for each of them (rules 3, 9 and 14).
	covering, belongs, err := p.cores.Covering(ctx, cell, r)
	if err == nil {
		removal.AssessAll(covering, cell, r, p.now())
		err = p.refreshForMinReady(ctx, cell, r, covering)
	}
	if err != nil {
		return removal.Deny(&removal.Denial{Cause: removal.CauseProtectorsUnknown, Detail: err.Error()})
	}
	charges, free := removal.ChargesFor(covering, belongs, r)
	if len(charges) == 0 {
		return removal.Admit(free)
	}
	attempt := r.Attempt(cell, p.now(), reserve.NewToken())
	if len(charges) > 1 {
		attempt.RevocableUntil = attempt.At.Add(reviews.GiveBackTimeout)
	}
	// 6. Check what is known: vanished protectors (rule 10), all budgets (rules 7 and 12), cores that do not answer.
	if denial := removal.CheckVanished(charges, r); denial != nil {
		return removal.Deny(denial, charges...)
	}
	p.nodes.resolveDomains(ctx, cell, r, charges)
	if r.DryRun || !p.cores.MayEscrow(charges, attempt) { // what is reserved in advance is not in the budget that Preview sees
		if denial := removal.Preview(charges, attempt, r); denial != nil {
			return removal.Deny(denial, charges...)
		}
	}
	if denial := p.cores.Check(charges); denial != nil && !attempt.Force {
		return removal.Deny(denial, charges...)
	}
	// 7. End here for a dry run (rule 8), a late review, and a caller whose pod is not that of the cell (rule 15).
	if r.DryRun {
		return removal.Admit(removal.VerdictDryRun, charges...)
	}
	if ctx.Err() != nil && !attempt.Force { // the API server gives up, or is about to
		late := &removal.Denial{Cause: removal.CauseUnreachable, By: &charges[0], Detail: "the review arrived too late"}
		return removal.Deny(late, charges...)
	}
	if denial := p.verifier.verify(ctx, cell, r, charges); denial != nil {
		return removal.Deny(denial)
	}
	// 8. Reserve with each protector in turn, all or none (rules 1, 2 and 7).
	return p.cores.Reserve(ctx, charges, attempt)
}

// isBetweenObjects reports whether a removal was denied because the cell is entering or leaving, so that another object decides (rule S6).
func isBetweenObjects(d removal.Decision) bool {
	return d.Denial != nil && d.Denial.Verdict() == removal.VerdictReason(quota.DeniedShared)
}

// recordRequest records the requested removal.
func recordRequest(span trace.Span, r removal.Request) {
	if span.IsRecording() {
		span.SetAttributes(attribute.String(tracing.Namespace, r.Namespace), attribute.String(tracing.PodName, r.PodName),
			attribute.String(tracing.PodUID, string(r.Pod.UID)), attribute.Bool(tracing.DryRun, r.DryRun))
	}
}

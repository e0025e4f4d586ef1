package generator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// protection gives sources that exist their protectors, and corrects the drift of those protectors.
type protection struct {
	live  client.Reader
	kinds *Kinds
	// losses has the protectors that vanished and that the keeper recreates; nil without a keeper.
	losses     Losses
	applier    *applier
	decreases  *decreaseLimiter
	conditions *conditionWriter
	finalizer  *sourceFinalizer
	releaser   *releaser
	events     events.EventRecorder
	source     *sourceEvents
	retries    *retries
	metrics    *Metrics
}

// protect gives a source its protectors and corrects drift. It adds the finalizer to the source first: a source with a protector must never
// be deletable without the generator observing it.
func (p *protection) protect(
	ctx context.Context, ref policy.Ref, source client.Object, protectors []*v1alpha1.PodProtector, choice policy.Choice,
) (outcome, error) {
	if choice.Verdict == policy.Retain && !hasReadableOrigin(protectors) {
		return p.retainProtectors(ctx, ref, source, protectors, choice)
	}
	full, err := p.kinds.getFull(ctx, ref, source, choice.Origin)
	if err != nil {
		return "", fmt.Errorf("read the %s: %w", ref.Kind, err)
	}
	if full == nil {
		return outdated, nil
	}
	wanted, err := policy.Protectors(*full, interpreterFor(ref, choice.Origin), choice.Origin)
	switch {
	case err != nil && choice.Verdict == policy.Retain:
		return p.retainProtectors(ctx, ref, source, protectors, choice)
	case err != nil:
		return p.reportDenial(source, err)
	}
	if result, err := p.checkNames(ref, source, protectors, wanted); err != nil {
		return result, err
	}
	if err := p.finalizer.add(ctx, ref, source); err != nil {
		return classifyWriteError(err, "add the finalizer to the "+ref.Kind)
	}
	result := protected
	if choice.Verdict == policy.Retain {
		result = retained
	}
	mistakes := p.source.describeMistakes(source)
	for i := range wanted {
		addMistakes(&wanted[i], mistakes)
		protectorOutcome, err := p.ensureProtector(ctx, ref, source, findByName(protectors, wanted[i].Object.Name), wanted[i], choice)
		if err != nil || protectorOutcome == denied {
			return protectorOutcome, err
		}
		if protectorOutcome == outdated {
			result = outdated
		}
	}
	if err := p.releaseRemovedParts(ctx, ref, source, protectors, wanted, choice); errors.Is(err, errOutdated) {
		return outdated, nil
	} else if err != nil {
		return result, err
	}
	return result, nil
}

// maxConflicts bounds the attempts to change a protector. In a storm, webhooks change its status many times a second.
const maxConflicts = 5

// ensureProtector gives a source one of its protectors.
func (p *protection) ensureProtector(
	ctx context.Context, ref policy.Ref, source client.Object, protector *v1alpha1.PodProtector, wanted policy.Protector, choice policy.Choice,
) (outcome, error) {
	if protector == nil {
		return p.create(ctx, ref, source, wanted, choice)
	}
	if isReleased(protector) {
		// Only another finalizer keeps it. The generator cannot add its own again, so it creates a new one after the deletion.
		return outdated, nil
	}
	live, limited, err := p.change(ctx, ref, source, protector, wanted, choice)
	for range maxConflicts - 1 {
		if !apierrors.IsConflict(err) {
			break
		}
		live, limited, err = p.change(ctx, ref, source, protector, wanted, choice) // the decision may be another one on the newest version
	}
	switch {
	case errors.Is(err, errOutdated):
		return outdated, nil
	case isInvalidSpec(err):
		return p.reportDenial(source, err)
	case apierrors.IsConflict(err):
		p.retries.retryAfter(ref, time.Second) // the watch ignores changes of the status, so that no event may follow
		return outdated, nil
	case err != nil:
		return classifyWriteError(err, "change the PodProtector")
	}
	return p.conditions.announceExisting(ctx, ref, source, live, existingSourceCondition(ref, live, limited, choice))
}

// change makes an existing protector as its source wants it, as far as the brake grants that. It returns the version that it decided on and what it
// applied. The error is a conflict if the protector has changed since that version.
func (p *protection) change(
	ctx context.Context, ref policy.Ref, source client.Object, cached *v1alpha1.PodProtector, wanted policy.Protector, choice policy.Choice,
) (*v1alpha1.PodProtector, policy.Protector, error) {
	protector, wanted, err := p.decreases.limit(ctx, ref, source, cached, wanted, choice)
	if err != nil {
		return protector, wanted, err
	}
	if finished, err := p.releaser.finishRelease(ctx, protector); err != nil {
		return protector, wanted, err
	} else if finished {
		return protector, wanted, errOutdated
	}
	if differs(protector, wanted) {
		if err := p.applier.correctDrift(ctx, protector, wanted); err != nil {
			return protector, wanted, err
		}
		p.metrics.writes.WithLabelValues("update").Inc()
		p.source.emitProtected(source, protector, wanted)
		log.FromContext(ctx).Info("Updated PodProtector", "protector", klog.KObj(protector), "floor", wanted.Object.Spec.MinAvailable)
	}
	return protector, wanted, nil
}

// create creates the protector, or finds it if a user changed the kind of its source. It makes two live reads first. With a cache that lags, it could
// recreate the protector of a source that was released, which would then stay for ever, or take over a user's protector.
func (p *protection) create(
	ctx context.Context, ref policy.Ref, source client.Object, wanted policy.Protector, choice policy.Choice,
) (outcome, error) {
	if current, err := p.kinds.getUnchanged(ctx, ref, source); err != nil || current == nil {
		return outdated, err
	}
	protector, err := get(ctx, p.live, client.ObjectKeyFromObject(wanted.Object), &v1alpha1.PodProtector{})
	if err != nil {
		return "", fmt.Errorf("get the PodProtector from the API server: %w", err)
	}
	if p.losses != nil && p.losses.Has(client.ObjectKeyFromObject(wanted.Object)) {
		return outdated, nil
	}
	if protector != nil {
		if result, err := p.checkNames(ref, source, []*v1alpha1.PodProtector{protector}, []policy.Protector{wanted}); err != nil {
			p.retries.retryAfter(ref, clusters.RecheckInterval) // no event maps another client's protector to a kind that is not built in
			return result, err
		}
		// What is wanted was decided without the protector, so it only gets back what identifies its source. An event follows.
		if belongs, err := p.kinds.belongs(ctx, protector, ref); err != nil || !belongs || policy.BelongsTo(protector, ref) {
			return outdated, err
		}
		return outdated, p.applier.identify(ctx, protector, wanted)
	}
	p.markPossiblyRestored(source, wanted.Object)
	if err := p.applier.create(ctx, wanted); isInvalidSpec(err) {
		return p.reportDenial(source, err)
	} else if err != nil {
		return classifyWriteError(err, "create the PodProtector")
	}
	p.retries.retryAfter(ref, clusters.RecheckInterval)
	p.metrics.writes.WithLabelValues("create").Inc()
	p.source.emitProtected(source, nil, wanted)
	log.FromContext(ctx).Info("Created PodProtector", "protector", klog.KObj(wanted.Object), "floor", wanted.Object.Spec.MinAvailable)
	return p.conditions.announceExisting(ctx, ref, source, wanted.Object, existingSourceCondition(ref, wanted.Object, wanted, choice))
}

// markPossiblyRestored marks a protector that may not be the first of its source, because the source already has the generator's finalizer
// (rule 10). An earlier protector may have vanished before this process started, and its reservations are unknown.
func (p *protection) markPossiblyRestored(source client.Object, wanted *v1alpha1.PodProtector) {
	if p.losses != nil && slices.Contains(source.GetFinalizers(), v1alpha1.FinalizerSource) {
		wanted.Annotations[v1alpha1.AnnotationRestored] = ""
	}
}

// reportDenial reports to the owner of a source that it requests a protector that cannot be created. Only a change of the source, or of its
// policy, can fix that, so a retry is pointless.
func (p *protection) reportDenial(source client.Object, reason error) (outcome, error) {
	p.events.Eventf(source, nil, corev1.EventTypeWarning, string(denied), "Protect", "%s",
		clusters.EventNote("The PodProtector of this workload cannot be applied: "+reason.Error()))
	return denied, reconcile.TerminalError(fmt.Errorf("PodProtector cannot be applied: %w", reason))
}

// checkNames rejects names whose protectors were not generated; those stay as they are.
func (p *protection) checkNames(
	ref policy.Ref, source client.Object, protectors []*v1alpha1.PodProtector, wanted []policy.Protector,
) (outcome, error) {
	for i := range wanted {
		protector := findByName(protectors, wanted[i].Object.Name)
		if protector == nil || policy.IsGenerated(protector) {
			continue
		}
		p.events.Eventf(source, protector, corev1.EventTypeWarning, string(nameTaken), "Protect",
			"The generator did not create PodProtector %s and does not change it: this %s has no generated PodProtector. Rename or delete that PodProtector.",
			protector.Name, ref.Kind)
		return nameTaken, reconcile.TerminalError(fmt.Errorf("PodProtector %s/%s was not created by the generator: it lacks the label %s=%s; rename or delete it",
			protector.Namespace, protector.Name, policy.LabelManagedBy, policy.ManagedBy))
	}
	return protected, nil
}

// retainProtectors keeps protectors as they are if their policy no longer exists and its record cannot be parsed.
func (p *protection) retainProtectors(
	ctx context.Context, ref policy.Ref, source client.Object, protectors []*v1alpha1.PodProtector, choice policy.Choice,
) (outcome, error) {
	for _, protector := range protectors {
		if !policy.IsGenerated(protector) || isReleased(protector) {
			continue
		}
		if result, err := p.conditions.announceExisting(ctx, ref, source, protector, retainedCondition(choice)); err != nil || result == outdated {
			return result, err
		}
	}
	return retained, nil
}

// hasReadableOrigin reports whether the protectors' record of their policy can be parsed.
func hasReadableOrigin(protectors []*v1alpha1.PodProtector) bool {
	for _, protector := range protectors {
		if !policy.IsGenerated(protector) {
			continue
		}
		if _, err := policy.OriginOf(protector); err != nil {
			return false
		}
	}
	return true
}

// findByName returns the protector of that name; nil if there is none.
func findByName(protectors []*v1alpha1.PodProtector, name string) *v1alpha1.PodProtector {
	index := slices.IndexFunc(protectors, func(p *v1alpha1.PodProtector) bool { return p.Name == name })
	if index < 0 {
		return nil
	}
	return protectors[index]
}

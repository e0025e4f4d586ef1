package generator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// releaseCause is why protectors of a source are to be released.
type releaseCause struct {
	// text is a clause: "Deployment web was deleted".
	text string
	// cascade is why the deletion is known to be a cascade; empty if that is not known.
	cascade string
	// policy is the policy whose deletion is the cause; nil for another cause.
	policy metav1.Object
	// heldCondition is the condition TargetResolved of protectors whose release is held; nil leaves it unchanged.
	heldCondition *clusters.Announcement
}

func deletedCause(ref policy.Ref) releaseCause {
	condition := targetResolvedCondition(metav1.ConditionFalse, v1alpha1.ReasonSourceDeleted, fmt.Sprintf(
		"%s was deleted. This PodProtector stays in force while its release is pending: see the condition %s.",
		ref, v1alpha1.ConditionDecreasePending), corev1.EventTypeWarning)
	return releaseCause{text: brake.CauseOfDeletion(ref.String()), heldCondition: &condition}
}

// optedOutCause returns the cause if the source exists. If its policy is the reason, the condition records that the policy was deleted.
func optedOutCause(ref policy.Ref, choice policy.Choice) releaseCause {
	cause := releaseCause{text: fmt.Sprintf("%s is not to be protected (%s)", ref, choice.Message), policy: choice.Deleted}
	if choice.Reason != "" {
		condition := targetResolvedCondition(metav1.ConditionFalse, choice.Reason, fmt.Sprintf(
			"%s. This PodProtector stays in force while its release is pending: see the condition %s.",
			choice.Message, v1alpha1.ConditionDecreasePending), corev1.EventTypeWarning)
		cause.heldCondition = &condition
	}
	return cause
}

// releaser ends the protection of sources: of those that opted out, or that a user deleted. Large releases wait for the brake (rule 13).
type releaser struct {
	client client.Client
	live   client.Reader
	kinds  *Kinds
	// losses has the protectors that vanished; nil without a keeper.
	losses     Losses
	policies   *policyChooser
	decreases  *decreaseLimiter
	conditions *conditionWriter
	finalizer  *sourceFinalizer
	retries    *retries
	metrics    *Metrics
}

// releaseDeletedSource releases the protectors of a source that is being deleted. If its whole kind is being deleted, the deletion counts as a
// cascade, which releases nothing by itself (rule 13).
func (r *releaser) releaseDeletedSource(ctx context.Context, ref policy.Ref, source client.Object, protectors []*v1alpha1.PodProtector) (outcome, error) {
	isKindDeleted, err := r.kinds.isKindDeleted(ctx, ref)
	if err != nil {
		return "", err
	}
	cause := deletedCause(ref)
	if isKindDeleted {
		cause.cascade = fmt.Sprintf("the CustomResourceDefinition of %s is being deleted", ref.Kind)
		if r.decreases.brake == nil {
			condition := vanishedCondition(ref) // no component would release it later
			cause.heldCondition = &condition
		}
	}
	return r.release(ctx, ref, source, protectors, cause)
}

// MaxReadAge is how long a read or write of protectors justifies the release of their source (rule 13). If the core was restored meanwhile, it has
// lost the records, and has the source again. A response that comes late may be older than the restore, which takes longer than MaxReadAge.
const MaxReadAge = 2 * time.Second

// release ends the protection of a source that is being deleted, or that opted out. The order of the steps makes a crash between two of
// them harmless. As long as the source has the generator's finalizer, it exists and triggers another reconciliation. It loses the finalizer
// last.
func (r *releaser) release(
	ctx context.Context, ref policy.Ref, source client.Object, protectors []*v1alpha1.PodProtector, cause releaseCause,
) (outcome, error) {
	if len(protectors) == 0 && !slices.Contains(source.GetFinalizers(), v1alpha1.FinalizerSource) {
		return ignored, nil
	}
	// Check this before the live reads: a protector that is recreated after them would outlive its source.
	if _, err := r.findUnrecreatable(ctx, ref); err != nil {
		return "", err
	}
	began := time.Now()
	live, err := r.listLiveProtectors(ctx, ref, protectors)
	if err != nil {
		return "", fmt.Errorf("get the PodProtectors from the API server: %w", err)
	}
	source, cause, err = r.checkRelease(ctx, ref, source, protectors, live, cause)
	if errors.Is(err, errOutdated) {
		return outdated, nil
	} else if err != nil {
		return "", err
	}
	if released, err := r.releaseUnrecreatable(ctx, ref, source, cause); err != nil || !released {
		return decreaseHeld, err
	}
	verdict, err := r.releaseProtectors(ctx, ref, source, live, cause)
	switch {
	case errors.Is(err, errProtectorVanished), errors.Is(err, errOutdated):
		return outdated, nil
	case err != nil:
		return "", err
	case verdict == brake.Quiet, verdict == brake.Held && source.GetDeletionTimestamp() == nil:
		return decreaseHeld, nil
	case verdict == brake.Held && !isHeldInCache(protectors, live, cause):
		return outdated, nil
	case time.Since(began) > MaxReadAge:
		return outdated, nil
	}
	// The condition of a held protector records that the source was deleted, so the source can be deleted.
	if err := r.finalizer.remove(ctx, ref, source); err != nil {
		return classifyWriteError(err, "remove the finalizer from the "+ref.Kind)
	}
	if verdict == brake.Held {
		return decreaseHeld, nil
	}
	return released, nil
}

// checkRelease returns the source as the API server returns it, and the cause. It returns errOutdated if that is another object than the cache shows, or if
// only one of the two is being deleted: then the cause is another one, which may be a cascade. It also returns errOutdated if the source is not to be
// released, or if one of its protectors does not exist any more: a restore of the core makes the deletion that the cache shows one of a lost history. The
// cause for a source that exists is that by the policies that the API server returns: a cache that does not have the protectors yet does not show that the
// deletion of their policy is the cause.
func (r *releaser) checkRelease(
	ctx context.Context, ref policy.Ref, source client.Object, cached, live []*v1alpha1.PodProtector, cause releaseCause,
) (client.Object, releaseCause, error) {
	// Rule 11: the cache may show a deletion that never happened, because the core may have been restored to a state before it.
	current, err := r.kinds.getLive(ctx, ref)
	if err != nil {
		return nil, cause, fmt.Errorf("get the %s from the API server: %w", ref.Kind, err)
	}
	if current == nil || current.GetUID() != source.GetUID() || (current.GetDeletionTimestamp() == nil) != (source.GetDeletionTimestamp() == nil) {
		return nil, cause, errOutdated
	}
	if current.GetDeletionTimestamp() == nil {
		choice, err := r.policies.chooseLive(ctx, ref, current, lastOrigin(live))
		if err != nil {
			return nil, cause, err
		}
		if choice.Verdict != policy.Release {
			return nil, cause, errOutdated
		}
		cause = optedOutCause(ref, choice)
	}
	for _, protector := range cached {
		if findByName(live, protector.Name) == nil {
			return nil, cause, errOutdated // an event follows. If it was lost, the keeper recreates it (rule 10)
		}
	}
	return current, cause, nil
}

// isHeldInCache reports whether the cache shows on all held protectors why they are held (rule 10). The keeper recreates a protector that
// vanishes as the cache last showed it, and nothing else records that its source was deleted.
func isHeldInCache(cached, live []*v1alpha1.PodProtector, cause releaseCause) bool {
	for _, protector := range live {
		if !policy.IsGenerated(protector) || isReleased(protector) || cause.heldCondition == nil {
			continue
		}
		shown := findByName(cached, protector.Name)
		if shown == nil || shown.UID != protector.UID || !cause.heldCondition.IsSet(shown) {
			return false
		}
	}
	return true
}

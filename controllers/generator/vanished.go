package generator

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// retainWithoutSource leaves protectors in force whose source no longer exists although no client deleted it: that indicates an accident. A deliberate
// deletion never looks like this, because the source's finalizer holds the source until its protectors are released.
func (r *Reconciler) retainWithoutSource(ctx context.Context, ref policy.Ref, protectors []*v1alpha1.PodProtector) (outcome, error) {
	result := ignored
	for _, protector := range protectors {
		if !policy.IsGenerated(protector) || isReleased(protector) {
			continue
		}
		if quota.IsRestorePending(protector) {
			return outdated, nil // only its status records whether its source was deleted
		}
		if isSourceDeleted(protector) {
			if result, err := r.releaseHeld(ctx, ref, protector); err != nil || result == outdated {
				return result, err
			}
			result = decreaseHeld
			continue
		}
		result = sourceVanished
		want := vanishedCondition(ref)
		_, isPending := brake.PendingOf(protector)
		if want.IsSet(protector) && !isPending {
			continue
		}
		source, err := r.Kinds.getLive(ctx, ref)
		if err != nil {
			return "", fmt.Errorf("get the %s from the API server: %w", ref.Kind, err)
		}
		if source != nil {
			return outdated, nil
		}
		// The cache may show that the source does not exist before it shows the reason: the two come by different watches.
		live, err := get(ctx, r.Live, client.ObjectKeyFromObject(protector), &v1alpha1.PodProtector{})
		if err != nil {
			return "", fmt.Errorf("get the PodProtector from the API server: %w", err)
		}
		if live != nil && quota.IsRestorePending(live) {
			return outdated, nil
		}
		if live != nil && isSourceDeleted(live) {
			return r.releaseHeld(ctx, ref, live)
		}
		if live != nil && want.IsSet(live) {
			if err := r.withdrawVanishedDecrease(ctx, ref, live); errors.Is(err, errOutdated) {
				return outdated, nil
			} else if err != nil {
				return "", err
			}
			continue
		}
		if err := r.announceCondition(ctx, protector, want); err != nil {
			return "", err
		}
	}
	return result, nil
}

// withdrawVanishedDecrease removes the record of a decrease that a vanished source wanted. No component requests it any more, and it would stay among the
// oldest pending decreases, for which others wait. The source is read after the protector: another leader may have recorded the decrease of
// a source that was created again and deleted since.
func (r *Reconciler) withdrawVanishedDecrease(ctx context.Context, ref policy.Ref, live *v1alpha1.PodProtector) error {
	if _, isPending := brake.PendingOf(live); !isPending || r.Brake == nil {
		return nil
	}
	source, err := r.Kinds.getLive(ctx, ref)
	if err != nil {
		return fmt.Errorf("get the %s from the API server: %w", ref.Kind, err)
	}
	if source != nil {
		return errOutdated
	}
	return r.withdrawDecrease(ctx, ref, live)
}

// releaseDeletedSource releases the protectors of a source that is being deleted. If its whole kind is being deleted, the deletion counts as a cascade.
func (r *Reconciler) releaseDeletedSource(ctx context.Context, ref policy.Ref, source client.Object, protectors []*v1alpha1.PodProtector) (outcome, error) {
	isKindDeleted, err := r.Kinds.isKindDeleted(ctx, ref)
	if err != nil {
		return "", err
	}
	cause := deletedCause(ref)
	if isKindDeleted {
		cause.cascade = fmt.Sprintf("the CustomResourceDefinition of %s is being deleted", ref.Kind)
		if r.Brake == nil {
			condition := vanishedCondition(ref) // no component would release it later
			cause.heldCondition = &condition
		}
	}
	return r.release(ctx, ref, source, protectors, cause)
}

// retainProtectors keeps protectors as they are if their policy no longer exists and its record cannot be parsed.
func (r *Reconciler) retainProtectors(ctx context.Context, protectors []*v1alpha1.PodProtector, choice policy.Choice) (outcome, error) {
	for _, protector := range protectors {
		if !policy.IsGenerated(protector) || isReleased(protector) {
			continue
		}
		if err := r.announceCondition(ctx, protector, retainedCondition(choice)); err != nil {
			return "", err
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

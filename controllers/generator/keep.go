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

// keep leaves protectors in force whose source no longer exists although no client deleted it: that indicates an accident. A deliberate
// deletion never looks like this, because the source's finalizer holds the source until its protectors are released.
func (r *Reconciler) keep(ctx context.Context, ref policy.Ref, protectors []*v1alpha1.PodProtector) (outcome, error) {
	result := ignored
	for _, protector := range protectors {
		if !policy.IsGenerated(protector) || isReleased(protector) {
			continue
		}
		if quota.Unfinished(protector) {
			return outdated, nil // only its status records whether its source was deleted
		}
		if wasDeleted(protector) {
			if result, err := r.releaseHeld(ctx, ref, protector); err != nil || result == outdated {
				return result, err
			}
			result = decreaseHeld
			continue
		}
		result = sourceVanished
		want := vanished(ref)
		_, isPending := brake.PendingOf(protector)
		if want.Stands(protector) && !isPending {
			continue
		}
		source, err := r.Kinds.live(ctx, ref)
		if err != nil {
			return "", fmt.Errorf("get the %s from the apiserver: %w", ref.Kind, err)
		}
		if source != nil {
			return outdated, nil
		}
		// The cache may show that the source does not exist before it shows the reason: the two come by different watches.
		live, err := get(ctx, r.Live, client.ObjectKeyFromObject(protector), &v1alpha1.PodProtector{})
		if err != nil {
			return "", fmt.Errorf("get the PodProtector from the API server: %w", err)
		}
		if live != nil && quota.Unfinished(live) {
			return outdated, nil
		}
		if live != nil && wasDeleted(live) {
			return r.releaseHeld(ctx, ref, live)
		}
		if live != nil && want.Stands(live) {
			if err := r.withdraw(ctx, ref, live); errors.Is(err, errOutdated) {
				return outdated, nil
			} else if err != nil {
				return "", err
			}
			continue
		}
		if err := r.resolve(ctx, protector, want); err != nil {
			return "", err
		}
	}
	return result, nil
}

// withdraw removes the record of a decrease that a vanished source wanted. No component requests it any more, and it would stay among the
// oldest pending decreases, for which others wait. The source is read after the protector: another leader may have recorded the decrease of
// a source that was created again and deleted since.
func (r *Reconciler) withdraw(ctx context.Context, ref policy.Ref, live *v1alpha1.PodProtector) error {
	if _, isPending := brake.PendingOf(live); !isPending || r.Brake == nil {
		return nil
	}
	source, err := r.Kinds.live(ctx, ref)
	if err != nil {
		return fmt.Errorf("get the %s from the API server: %w", ref.Kind, err)
	}
	if source != nil {
		return errOutdated
	}
	return r.withdrawRead(ctx, ref, live)
}

// end releases the protectors of a source that is being deleted. If its whole kind is being deleted, the deletion counts as a cascade.
func (r *Reconciler) end(ctx context.Context, ref policy.Ref, source client.Object, protectors []*v1alpha1.PodProtector) (outcome, error) {
	going, err := r.Kinds.isKindGoing(ctx, ref)
	if err != nil {
		return "", err
	}
	cause := deleted(ref)
	if going {
		cause.cascade = fmt.Sprintf("the CustomResourceDefinition of %s is being deleted", ref.Kind)
		if r.Brake == nil {
			gone := vanished(ref) // no component would release it later
			cause.held = &gone
		}
	}
	return r.release(ctx, ref, source, protectors, cause)
}

// retainAll keeps protectors as they are if their policy no longer exists and its record cannot be parsed.
func (r *Reconciler) retainAll(ctx context.Context, protectors []*v1alpha1.PodProtector, choice policy.Choice) (outcome, error) {
	for _, protector := range protectors {
		if !policy.IsGenerated(protector) || isReleased(protector) {
			continue
		}
		if err := r.resolve(ctx, protector, kept(choice)); err != nil {
			return "", err
		}
	}
	return retained, nil
}

// isReadable reports whether the protectors' record of their policy can be parsed.
func isReadable(protectors []*v1alpha1.PodProtector) bool {
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

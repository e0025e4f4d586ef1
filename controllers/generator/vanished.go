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

// retainer keeps protectors in force whose source vanished (rule 10).
type retainer struct {
	live       client.Reader
	kinds      *Kinds
	decreases  *decreaseLimiter
	conditions *conditionWriter
	releaser   *releaser
}

// retainWithoutSource leaves protectors in force whose source no longer exists although no client deleted it: that indicates an accident
// (rule 10). A deliberate deletion never looks like this, because the source's finalizer holds the source until its protectors are released.
func (t *retainer) retainWithoutSource(ctx context.Context, ref policy.Ref, protectors []*v1alpha1.PodProtector) (outcome, error) {
	result := ignored
	for _, protector := range protectors {
		if !policy.IsGenerated(protector) || isReleased(protector) {
			continue
		}
		if quota.IsRestorePending(protector) {
			return outdated, nil // only its status records whether its source was deleted
		}
		if isSourceDeleted(protector) {
			if result, err := t.releaser.releaseHeld(ctx, ref, protector); err != nil || result == outdated {
				return result, err
			}
			result = decreaseHeld
			continue
		}
		result = sourceVanished
		if recorded, err := t.recordVanished(ctx, ref, protector); err != nil || recorded != sourceVanished {
			return recorded, err
		}
	}
	return result, nil
}

// recordVanished records in the condition of a protector that its source vanished. It returns sourceVanished, unless the API server shows
// something else.
func (t *retainer) recordVanished(ctx context.Context, ref policy.Ref, protector *v1alpha1.PodProtector) (outcome, error) {
	want := vanishedCondition(ref)
	if _, isPending := brake.PendingOf(protector); want.IsSet(protector) && !isPending {
		return sourceVanished, nil
	}
	source, err := t.kinds.getLive(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("get the %s from the API server: %w", ref.Kind, err)
	}
	if source != nil {
		return outdated, nil
	}
	// The cache may show that the source does not exist before it shows the reason: the two come by different watches.
	live, err := get(ctx, t.live, client.ObjectKeyFromObject(protector), &v1alpha1.PodProtector{})
	if err != nil {
		return "", fmt.Errorf("get the PodProtector from the API server: %w", err)
	}
	if live != nil && quota.IsRestorePending(live) {
		return outdated, nil
	}
	if live != nil && isSourceDeleted(live) {
		return t.releaser.releaseHeld(ctx, ref, live)
	}
	if live != nil && want.IsSet(live) {
		if err := t.decreases.withdrawVanished(ctx, ref, live); errors.Is(err, errOutdated) {
			return outdated, nil
		} else if err != nil {
			return "", err
		}
		return sourceVanished, nil
	}
	if err := t.conditions.announce(ctx, protector, want); err != nil {
		return "", err
	}
	return sourceVanished, nil
}

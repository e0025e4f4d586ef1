package generator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// retainer keeps protectors in force whose source vanished (rule 10).
type retainer struct {
	cache, live client.Reader

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

// recordVanished records in the condition of a protector that its source vanished, and releases the protector once a user confirms that. It
// returns sourceVanished while the protector stays, unless the API server shows something else.
func (t *retainer) recordVanished(ctx context.Context, ref policy.Ref, protector *v1alpha1.PodProtector) (outcome, error) {
	want := vanishedCondition(ref)
	if _, isPending := brake.PendingOf(protector); want.IsSet(protector) && !isPending {
		if confirmed, err := isReleaseConfirmed(ctx, protector, t.cache); err != nil || !confirmed {
			return sourceVanished, err
		}
	}
	result := outdated
	err := retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		result, err = t.recordVanishedOnce(ctx, ref, protector, want)
		return err
	})
	if err != nil {
		return classifyWriteError(err, "resolve")
	}
	return result, nil
}

// recordVanishedOnce is recordVanished, and returns a conflict if another client has written the protector since it was read. The cache may show that the
// source does not exist before it shows the reason: the two come by different watches. The source is read after the protector.
func (t *retainer) recordVanishedOnce(
	ctx context.Context, ref policy.Ref, protector *v1alpha1.PodProtector, want clusters.Announcement,
) (outcome, error) {
	live, err := get(ctx, t.live, client.ObjectKeyFromObject(protector), &v1alpha1.PodProtector{})
	if err != nil {
		return "", fmt.Errorf("get the PodProtector from the API server: %w", err)
	}
	source, err := t.kinds.getLive(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("get the %s from the API server: %w", ref.Kind, err)
	}
	switch {
	case source != nil, live == nil, live.UID != protector.UID, quota.IsRestorePending(live):
		return outdated, nil
	case isSourceDeleted(live):
		return t.releaser.releaseHeld(ctx, ref, live)
	case want.IsSet(live):
		return t.releaseConfirmed(ctx, ref, live)
	}
	return sourceVanished, t.conditions.announcer.AnnounceOn(ctx, live, want)
}

// releaseConfirmed releases a protector that records that its source vanished, if a user confirms that: nothing else releases it (rule 10).
// Otherwise it withdraws what the source wanted last. The API server must have shown that the source does not exist. The confirmation must
// be in the cache, where the brake reads it, and at the API server: a restored core may have lost it.
func (t *retainer) releaseConfirmed(ctx context.Context, ref policy.Ref, live *v1alpha1.PodProtector) (outcome, error) {
	if confirmed, err := isReleaseConfirmed(ctx, live, t.cache, t.live); err != nil {
		return "", err
	} else if confirmed {
		return t.releaser.releaseWithoutSource(ctx, ref, live, releaseCause{text: ref.String() + " no longer exists"})
	}
	if err := t.decreases.withdrawVanished(ctx, ref, live); errors.Is(err, errOutdated) {
		return outdated, nil
	} else if err != nil {
		return "", err
	}
	return sourceVanished, nil
}

// isReleaseConfirmed reports whether a protector whose source does not exist, or its namespace as each reader shows it, confirms the release.
func isReleaseConfirmed(ctx context.Context, protector *v1alpha1.PodProtector, readers ...client.Reader) (bool, error) {
	for _, reader := range readers {
		namespace := clusters.EmptyNamespace()
		if err := reader.Get(ctx, client.ObjectKey{Name: protector.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("get the namespace: %w", err)
		}
		if !(brake.Request{Protector: protector}).IsConfirmed(namespace.Annotations, time.Now()) {
			return false, nil
		}
	}
	return true, nil
}

package generator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// releaseProtectors releases those of the protectors that may be released now, and returns the strictest verdict on the others.
func (r *releaser) releaseProtectors(
	ctx context.Context, ref policy.Ref, source client.Object, protectors []*v1alpha1.PodProtector, cause releaseCause,
) (brake.Verdict, error) {
	strictest := brake.Granted
	for _, protector := range protectors {
		if !policy.IsGenerated(protector) || isReleased(protector) {
			continue
		}
		verdict, err := r.decreases.decideRelease(ctx, ref, source, protector, cause)
		if err != nil {
			return "", err
		}
		switch verdict {
		case brake.Quiet:
			strictest = brake.Quiet // the source must stay until the verdict is known
			continue
		case brake.Held:
			if strictest == brake.Granted {
				strictest = brake.Held
			}
			if err := r.announceHeld(ctx, ref, source, protector, cause); err != nil {
				return "", err
			}
			continue
		}
		if err := r.releaseProtector(ctx, protector); apierrors.IsNotFound(err) {
			return "", errProtectorVanished
		} else if err != nil {
			return "", err
		}
		r.retries.retryAfter(ref, clusters.RecheckInterval)
	}
	return strictest, nil
}

// announceHeld writes the condition of a protector whose release is held.
func (r *releaser) announceHeld(
	ctx context.Context, ref policy.Ref, source client.Object, protector *v1alpha1.PodProtector, cause releaseCause,
) error {
	if cause.heldCondition == nil {
		return nil
	}
	if source == nil || source.GetDeletionTimestamp() != nil {
		return r.conditions.announce(ctx, protector, *cause.heldCondition)
	}
	if result, err := r.conditions.announceExisting(ctx, ref, source, protector, *cause.heldCondition); err != nil || result != outdated {
		return err
	}
	return errOutdated
}

// releaseProtector deletes a protector: it removes the finalizer first, then the object. It records the release between the two: a record counts for
// whatever happens to the protector within an hour, and the first step fails if the protector has changed since the release was granted. If it is being
// deleted already, the first step ends it, so the record comes before.
func (r *releaser) releaseProtector(ctx context.Context, protector *v1alpha1.PodProtector) error {
	if isReleased(protector) {
		return nil
	}
	if protector.DeletionTimestamp != nil {
		if err := clusters.RecordRelease(ctx, r.client, protector, Name); err != nil {
			return err
		}
	}
	if err := clusters.DropFinalizer(ctx, r.client, protector, v1alpha1.FinalizerProtector, Name, testPending(protector)...); err != nil {
		return fmt.Errorf("remove the finalizer from the PodProtector: %w", err)
	}
	if err := clusters.RecordRelease(ctx, r.client, protector, Name); err != nil {
		return err
	}
	return r.deleteReleased(ctx, protector)
}

// deleteReleased deletes a protector whose release is recorded.
func (r *releaser) deleteReleased(ctx context.Context, protector *v1alpha1.PodProtector) error {
	if err := r.client.Delete(ctx, protector, client.Preconditions{UID: &protector.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the PodProtector: %w", err)
	}
	r.metrics.writes.WithLabelValues("release").Inc()
	log.FromContext(ctx).Info("Released PodProtector", "protector", klog.KObj(protector))
	return nil
}

// testPending returns the tests that fail if another leader has withdrawn the decrease that a protector records: its source wants it again.
func testPending(protector *v1alpha1.PodProtector) []clusters.Test {
	at := slices.IndexFunc(protector.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionDecreasePending && c.Status == metav1.ConditionTrue
	})
	if at < 0 {
		return nil
	}
	path := fmt.Sprintf("/status/conditions/%d/", at)
	return []clusters.Test{{Path: path + "type", Value: v1alpha1.ConditionDecreasePending}, {Path: path + "status", Value: string(metav1.ConditionTrue)}}
}

// finishRelease deletes a protector whose release was recorded, but not finished before its source wanted it again. It reports whether that is so. A
// protector that keeps such a record would not be known to be lost if it vanished.
func (r *releaser) finishRelease(ctx context.Context, protector *v1alpha1.PodProtector) (bool, error) {
	if slices.Contains(protector.Finalizers, v1alpha1.FinalizerProtector) {
		return false, nil
	}
	recorded, err := clusters.WasReleased(ctx, r.live, protector)
	if err != nil || !recorded {
		return false, err
	}
	return true, r.deleteReleased(ctx, protector)
}

// errProtectorVanished means that a protector no longer exists: it may have vanished.
var errProtectorVanished = errors.New("the PodProtector does not exist")

// isReleased reports whether a protector is being deleted and no longer has the generator's finalizer.
func isReleased(protector *v1alpha1.PodProtector) bool {
	return protector.DeletionTimestamp != nil && !slices.Contains(protector.Finalizers, v1alpha1.FinalizerProtector)
}

// isSourceDeleted reports whether a protector stays although its source was deleted, because the brake holds its release.
func isSourceDeleted(p *v1alpha1.PodProtector) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonSourceDeleted
}

// releaseHeld releases a protector whose source no longer exists and whose release was held, once the brake grants it.
func (r *releaser) releaseHeld(ctx context.Context, ref policy.Ref, protector *v1alpha1.PodProtector) (outcome, error) {
	if current, err := r.kinds.getLive(ctx, ref); err != nil {
		return "", fmt.Errorf("get the %s from the API server: %w", ref.Kind, err)
	} else if current != nil {
		return outdated, nil
	}
	live, err := get(ctx, r.live, client.ObjectKeyFromObject(protector), &v1alpha1.PodProtector{})
	if err != nil || live == nil || live.UID != protector.UID {
		return outdated, err
	}
	// Rule 13: a restored core may have lost the record, and with it whether a cascade deleted the source.
	if !isSourceDeleted(live) {
		return outdated, nil
	}
	if released, err := r.releaseUnrecreatable(ctx, ref, nil, deletedCause(ref)); err != nil || !released {
		return decreaseHeld, err
	}
	return r.releaseWithoutSource(ctx, ref, live, deletedCause(ref))
}

// releaseWithoutSource releases a protector whose source does not exist, if the brake grants it. live was read from the API server.
func (r *releaser) releaseWithoutSource(ctx context.Context, ref policy.Ref, live *v1alpha1.PodProtector, cause releaseCause) (outcome, error) {
	verdict, err := r.releaseProtectors(ctx, ref, nil, []*v1alpha1.PodProtector{live}, cause)
	switch {
	case errors.Is(err, errProtectorVanished):
		return outdated, nil
	case err != nil:
		return "", err
	case verdict == brake.Granted:
		return released, nil
	default:
		return decreaseHeld, nil
	}
}

package generator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// maxReadAge is how long a read or write of protectors justifies the release of their source. If the core was restored meanwhile, it has
// lost the records, and has the source again. A response that comes late may be older than the restore, which takes longer than freshness.
const maxReadAge = 2 * time.Second

// release ends the protection of a source that is being deleted, or that opted out. The order of the steps makes a crash between two of
// them harmless. As long as the source has the generator's finalizer, it exists and triggers another reconciliation. It loses the finalizer
// last.
func (r *Reconciler) release(
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
	live, err := r.listLiveProtectors(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("get the PodProtectors from the API server: %w", err)
	}
	// The cache may show a deletion that never happened: the core may have been restored to a state before it.
	if current, err := r.Kinds.getLive(ctx, ref); err != nil {
		return "", fmt.Errorf("get the %s from the API server: %w", ref.Kind, err)
	} else if current != nil && current.GetDeletionTimestamp() == nil {
		choice, err := r.choosePolicyFrom(ctx, r.Live, ref, current, lastOrigin(live))
		if err != nil {
			return "", err
		}
		if choice.Verdict != policy.Release {
			return outdated, nil
		}
	}
	for _, cached := range protectors {
		if findByName(live, cached.Name) == nil && clusters.WasLost(cached) {
			return outdated, nil
		}
	}
	if released, err := r.releaseUnrecreatable(ctx, ref, source, cause); err != nil || !released {
		return decreaseHeld, err
	}
	verdict, err := r.releaseProtectors(ctx, ref, source, live, cause)
	switch {
	case errors.Is(err, errProtectorVanished):
		return outdated, nil
	case err != nil:
		return "", err
	case verdict == brake.Quiet, verdict == brake.Held && source.GetDeletionTimestamp() == nil:
		return decreaseHeld, nil
	case verdict == brake.Held && !isHeldInCache(protectors, live, cause):
		return outdated, nil
	case time.Since(began) > maxReadAge:
		return outdated, nil
	}
	// The condition of a held protector records that the source was deleted, so the source can be deleted.
	if err := r.removeSourceFinalizer(ctx, ref, source); err != nil {
		return classifyWriteError(err, "remove the finalizer from the "+ref.Kind)
	}
	if verdict == brake.Held {
		return decreaseHeld, nil
	}
	return released, nil
}

// isHeldInCache reports whether the cache shows on all held protectors why they are held. The keeper recreates a protector that vanishes as
// the cache last showed it, and nothing else records that its source was deleted.
func isHeldInCache(cached, live []*v1alpha1.PodProtector, cause releaseCause) bool {
	for _, protector := range live {
		if !policy.IsGenerated(protector) || isReleased(protector) || cause.heldCondition == nil {
			continue
		}
		if cachedProtector := findByName(cached, protector.Name); cachedProtector == nil || cachedProtector.UID != protector.UID ||
			!cause.heldCondition.IsSet(cachedProtector) {
			return false
		}
	}
	return true
}

// findUnrecreatable returns the last state of a protector of a source that has vanished and cannot be recreated, because its namespace is being
// deleted; nil if there is none. It returns an error while a protector is about to be recreated.
func (r *Reconciler) findUnrecreatable(ctx context.Context, ref policy.Ref) (*v1alpha1.PodProtector, error) {
	if r.Losses == nil {
		return nil, nil
	}
	last, ok := r.Losses.Find(func(last *v1alpha1.PodProtector) bool {
		lastSource, _, isGenerated := policy.SourceOf(last)
		return isGenerated && lastSource == ref
	})
	if !ok {
		return nil, nil
	}
	namespace := clusters.EmptyNamespace()
	if err := r.Live.Get(ctx, client.ObjectKey{Name: ref.Namespace}, namespace); err != nil {
		return nil, fmt.Errorf("get the namespace from the API server: %w", err)
	}
	if namespace.DeletionTimestamp != nil {
		return last, nil
	}
	return nil, fmt.Errorf("PodProtector %s vanished and cannot be released until it is recreated", klog.KObj(last))
}

// releaseUnrecreatable releases the protectors of findUnrecreatable that may be released without a record in their status: those that a user has confirmed,
// and small ones. It reports whether none is left. Otherwise the source keeps its finalizer, and so its namespace stays.
func (r *Reconciler) releaseUnrecreatable(ctx context.Context, ref policy.Ref, source client.Object, cause releaseCause) (bool, error) {
	for {
		last, err := r.findUnrecreatable(ctx, ref)
		if err != nil || last == nil {
			return err == nil, err
		}
		verdict, err := r.decideRelease(ctx, ref, source, last, cause)
		if err != nil {
			return false, err
		}
		if verdict != brake.Granted {
			log.FromContext(ctx).Info("Held source of vanished PodProtector until a user confirms the deletion of its namespace",
				"protector", klog.KObj(last), "annotation", v1alpha1.AnnotationConfirmRelease)
			r.retries.retryAfter(ref, clusters.RecheckInterval) // no event of its namespace triggers a reconciliation
			return false, nil
		}
		if err := clusters.RecordRelease(ctx, r.Client, last, Name); err != nil {
			return false, err
		}
		r.Losses.Forget(last)
		log.FromContext(ctx).Info("Released vanished PodProtector", "protector", klog.KObj(last))
	}
}

// releaseProtector deletes a protector: it removes the finalizer first, then the object.
func (r *Reconciler) releaseProtector(ctx context.Context, protector *v1alpha1.PodProtector) error {
	if isReleased(protector) {
		return nil
	}
	if err := clusters.RecordRelease(ctx, r.Client, protector, Name); err != nil {
		return err
	}
	if err := clusters.DropFinalizer(ctx, r.Client, protector, v1alpha1.FinalizerProtector, Name); err != nil {
		return fmt.Errorf("remove the finalizer from the PodProtector: %w", err)
	}
	if err := r.Client.Delete(ctx, protector, client.Preconditions{UID: &protector.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the PodProtector: %w", err)
	}
	r.Metrics.writes.WithLabelValues("release").Inc()
	log.FromContext(ctx).Info("Released PodProtector", "protector", klog.KObj(protector))
	return nil
}

// isReleased reports whether a protector is being deleted and no longer has the generator's finalizer.
func isReleased(protector *v1alpha1.PodProtector) bool {
	return protector.DeletionTimestamp != nil && !slices.Contains(protector.Finalizers, v1alpha1.FinalizerProtector)
}

package generator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/desired"
	"github.com/breakwater-k8s/breakwater/internal/fleet"
)

// release ends the protection of a source that is being deleted, or that opted out. The order is what makes a
// crash between two steps harmless: as long as the source has our finalizer it is there to bring us back, and
// it loses the finalizer last.
func (r *Reconciler) release(
	ctx context.Context, ref desired.Ref, source client.Object, protectors []*v1alpha1.PodProtector, cause releaseCause,
) (outcome, error) {
	if len(protectors) == 0 && !slices.Contains(source.GetFinalizers(), v1alpha1.FinalizerSource) {
		return ignored, nil
	}
	// Before the apiserver is asked: one that is made anew after it has answered would outlive its source.
	if err := r.awaitLost(ref); err != nil {
		return "", err
	}
	live, err := r.liveProtectors(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("get the PodProtectors from the apiserver: %w", err)
	}
	// The cache may show a deletion that never was: the core may have been restored to before it.
	if current, err := r.Kinds.live(ctx, ref); err != nil {
		return "", fmt.Errorf("get the %s from the apiserver: %w", ref.Kind, err)
	} else if current != nil && current.GetDeletionTimestamp() == nil {
		choice, err := r.chooseBy(ctx, r.Live, ref, current, lastOrigin(live))
		if err != nil {
			return "", err
		}
		if choice.Verdict != desired.Release {
			return outdated, nil
		}
	}
	for _, known := range protectors {
		if byName(live, known.Name) == nil && fleet.Vanished(known) {
			return outdated, nil
		}
	}
	if err := r.awaitLost(ref); err != nil {
		return "", err
	}
	verdict, err := r.removeAll(ctx, ref, source, live, cause)
	switch {
	case errors.Is(err, errVanished):
		return outdated, nil
	case err != nil:
		return "", err
	case verdict == brake.Quiet, verdict == brake.Held && source.GetDeletionTimestamp() == nil:
		return decreaseHeld, nil
	}
	// What is held says by its condition that the source was deleted, so that the source can go.
	if err := r.letGo(ctx, ref, source); err != nil {
		return stale(err, "remove the finalizer from the "+ref.Kind)
	}
	if verdict == brake.Held {
		return decreaseHeld, nil
	}
	return released, nil
}

// awaitLost is an error while a protector of a source, which has vanished, is about to be made anew.
func (r *Reconciler) awaitLost(ref desired.Ref) error {
	if r.Losses == nil {
		return nil
	}
	last, ok := r.Losses.Find(func(last *v1alpha1.PodProtector) bool {
		of, _, known := desired.SourceOf(last)
		return known && of == ref
	})
	if !ok {
		return nil
	}
	return fmt.Errorf("wait until PodProtector %s is made anew, which has vanished: it is to be released", klog.KObj(last))
}

// remove deletes a protector for good: first the finalizer goes, then the object.
func (r *Reconciler) remove(ctx context.Context, protector *v1alpha1.PodProtector) error {
	if isReleased(protector) {
		return nil
	}
	if err := fleet.NoteRelease(ctx, r.Client, protector, Name); err != nil {
		return err
	}
	if err := fleet.DropFinalizer(ctx, r.Client, protector, v1alpha1.FinalizerProtector, Name); err != nil {
		return fmt.Errorf("remove the finalizer from the PodProtector: %w", err)
	}
	if err := r.Client.Delete(ctx, protector, client.Preconditions{UID: &protector.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the PodProtector: %w", err)
	}
	r.Metrics.writes.WithLabelValues("release").Inc()
	log.FromContext(ctx).Info("PodProtector released", "protector", klog.KObj(protector))
	return nil
}

// isReleased tells whether a protector is being deleted and we do not hold it any more.
func isReleased(protector *v1alpha1.PodProtector) bool {
	return protector.DeletionTimestamp != nil && !slices.Contains(protector.Finalizers, v1alpha1.FinalizerProtector)
}

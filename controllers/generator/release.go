package generator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/desired"
	"github.com/breakwater-k8s/breakwater/internal/fleet"
)

// release ends the protection of a Deployment that is being deleted, or that opted out. The order is what makes a
// crash between two steps harmless: as long as the Deployment has our finalizer it is there to bring us back, and
// it loses the finalizer last.
func (r *Reconciler) release(ctx context.Context, source *appsv1.Deployment, protector *v1alpha1.PodProtector) (outcome, error) {
	if protector == nil && !slices.Contains(source.Finalizers, v1alpha1.FinalizerSource) {
		return ignored, nil
	}
	// The cache may show a deletion that never was: the core may have been restored to before it.
	if current, err := get(ctx, r.Live, client.ObjectKeyFromObject(source), &appsv1.Deployment{}); err != nil {
		return "", fmt.Errorf("get the Deployment from the apiserver: %w", err)
	} else if current != nil && r.wants(current) {
		return outdated, nil
	}
	// The cache may not show a protector that we have just made: without this read it would stay behind.
	live, err := get(ctx, r.Live, protectorOf(source), &v1alpha1.PodProtector{})
	if err != nil {
		return "", fmt.Errorf("get the PodProtector from the apiserver: %w", err)
	}
	if live == nil && fleet.Vanished(protector) {
		return outdated, nil
	}
	if live == nil && r.Losses != nil && r.Losses.Has(protectorOf(source)) {
		return "", fmt.Errorf("wait until PodProtector %s is made anew, which has vanished: it is to be released", protectorOf(source))
	}
	if live != nil && desired.IsGenerated(live) {
		if err := r.remove(ctx, live); apierrors.IsNotFound(err) {
			return outdated, nil // it may have vanished
		} else if err != nil {
			return "", err
		}
	}
	if err := r.letGo(ctx, source); err != nil {
		return stale(err, "remove the finalizer from the Deployment")
	}
	return released, nil
}

func protectorOf(source *appsv1.Deployment) client.ObjectKey {
	return client.ObjectKey{Namespace: source.Namespace, Name: desired.ProtectorName(source.Name)}
}

// remove deletes a protector for good: first the finalizer goes, then the object.
func (r *Reconciler) remove(ctx context.Context, protector *v1alpha1.PodProtector) error {
	if isReleased(protector) {
		return nil
	}
	if err := fleet.NoteRelease(ctx, r.Client, protector, Name); err != nil {
		return err
	}
	if err := r.dropFinalizer(ctx, protector); err != nil {
		return fmt.Errorf("remove the finalizer from the PodProtector: %w", err)
	}
	if err := r.Client.Delete(ctx, protector, client.Preconditions{UID: &protector.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the PodProtector: %w", err)
	}
	r.Metrics.writes.WithLabelValues("release").Inc()
	log.FromContext(ctx).Info("PodProtector released", "protector", klog.KObj(protector))
	return nil
}

// dropFinalizer takes our finalizer off a protector by a JSON patch that tests what it removes. It needs no
// resourceVersion: webhooks and aggregators write the status all the time in a storm, and would win every race.
func (r *Reconciler) dropFinalizer(ctx context.Context, protector *v1alpha1.PodProtector) error {
	position := slices.Index(protector.Finalizers, v1alpha1.FinalizerProtector)
	if position < 0 {
		return nil
	}
	path := fmt.Sprintf("/metadata/finalizers/%d", position)
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": protector.UID},
		{"op": "test", "path": path, "value": v1alpha1.FinalizerProtector},
		{"op": "remove", "path": path},
	})
	if err != nil {
		return err
	}
	return r.Client.Patch(ctx, protector.DeepCopy(), client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(Name))
}

// isReleased tells whether a protector is being deleted and we do not hold it any more.
func isReleased(protector *v1alpha1.PodProtector) bool {
	return protector.DeletionTimestamp != nil && !slices.Contains(protector.Finalizers, v1alpha1.FinalizerProtector)
}

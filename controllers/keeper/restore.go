package keeper

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// restore recreates a protector that vanished, after it verified the loss. The protector is unfinished until its status is restored,
// because an API server ignores the status in a create request. Until then the webhook admits no removal by it, and no aggregator counts
// for it.
func (r *Reconciler) restore(ctx context.Context, key types.NamespacedName) error {
	lost, ok := r.Losses.get(key)
	if !ok {
		return nil
	}
	// It may exist again: another client may have created it, or the core may have been restored to a state before its loss.
	err := r.Live.Get(ctx, key, &v1alpha1.PodProtector{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	// It may also have been released: earlier, while no component watched, or later, as the recreated protector.
	released, err := clusters.WasReleased(ctx, r.Live, lost.vanished)
	if err != nil {
		return fmt.Errorf("check whether the PodProtector was released: %w", err)
	}
	if released {
		r.Losses.remove(key, lost)
		return nil
	}
	recreated := &v1alpha1.PodProtector{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels: lost.last.Labels, Annotations: maps.Clone(lost.last.Annotations), Finalizers: lost.last.Finalizers,
		},
		Spec: *lost.last.Spec.DeepCopy(),
	}
	if recreated.Annotations == nil {
		recreated.Annotations = map[string]string{}
	}
	recreated.Annotations[v1alpha1.AnnotationRestored] = string(lost.last.UID)
	if err := carry(recreated, v1alpha1.AnnotationRestoredDecrease, decreaseOf(lost.last)); err != nil {
		return err
	}
	if err := carry(recreated, v1alpha1.AnnotationRestoredOwners, ownersOf(lost.last)); err != nil {
		return err
	}
	if err := r.Client.Create(ctx, recreated, client.FieldOwner(Name)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("recreate the PodProtector: %w", err)
	}
	log.FromContext(ctx).Info("Recreated lost PodProtector", "protector", klog.KObj(recreated), "vanished", lost.last.UID)
	return nil
}

// restoreStatus gives a recreated protector the reservations of the one that vanished, and completes it.
func (r *Reconciler) restoreStatus(ctx context.Context, cached *v1alpha1.PodProtector) error {
	key, p := client.ObjectKeyFromObject(cached), &v1alpha1.PodProtector{}
	if err := r.Live.Get(ctx, key, p); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !quota.IsRestorePending(p) {
		return nil
	}
	reservations, pending := "Its reservations are unknown", decreaseOf(p)
	lost, exists := r.Losses.get(key)
	if exists && string(lost.last.UID) == p.Annotations[v1alpha1.AnnotationRestored] {
		p.Status.Cells = quota.RestoredCells(&lost.last.Status)
		pending = decreaseOf(lost.last)
		reservations = "It has its " + printable.Count(quota.BudgetOf(p).Reserved, "earlier reservation")
	}
	restoreDecrease(p, pending)
	restored := metav1.Condition{
		Type: v1alpha1.ConditionRestored, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonVanished, ObservedGeneration: p.Generation,
		Message: fmt.Sprintf("This PodProtector vanished without having been released, and the keeper recreated it. %s. The webhook denies "+
			"removals until all cells have counted their pods again, after the removals that may have been in progress have ended.", reservations),
	}
	meta.SetStatusCondition(&p.Status.Conditions, restored)
	quota.Summarize(p)
	// The controller retries a conflict: aggregators write conditions meanwhile, and changed drops those events.
	if err := r.Client.Status().Update(ctx, p); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("restore the status: %w", err)
	}
	if exists {
		r.Losses.remove(key, lost)
	}
	r.metrics.restored.Inc()
	r.Events.Eventf(p, nil, corev1.EventTypeWarning, v1alpha1.ConditionRestored, "Restore", "%s", clusters.EventNote(restored.Message))
	return nil
}

// forgetLoss forgets the loss of a protector that exists and is complete. Either its core was restored to a state before the loss, or a write
// whose response was lost recreated it. The loss is from before the protector was read: it may vanish again at any time.
func (r *Reconciler) forgetLoss(ctx context.Context, cached *v1alpha1.PodProtector) error {
	key, p := client.ObjectKeyFromObject(cached), &v1alpha1.PodProtector{}
	lost, ok := r.Losses.get(key)
	if err := r.Live.Get(ctx, key, p); err != nil {
		return client.IgnoreNotFound(err)
	}
	if ok && p.UID == cached.UID && !quota.IsRestorePending(p) {
		r.Losses.remove(key, lost)
	}
	return nil
}

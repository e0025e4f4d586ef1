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
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// restore makes a protector anew that vanished, if it did. It is not whole before its status is: an apiserver takes no
// status from whoever creates. Until then nothing is admitted by it, and nobody counts for it.
func (r *Reconciler) restore(ctx context.Context, key types.NamespacedName) error {
	lost, ok := r.Losses.of(key)
	if !ok {
		return nil
	}
	// It may be there again, by somebody else, or as it was: the core may have been restored to before its loss.
	err := r.Live.Get(ctx, key, &v1alpha1.PodProtector{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	// It may also have been released: before, while nobody watched, or since, as the one that was made anew.
	released, err := clusters.WasReleased(ctx, r.Live, lost.gone)
	if err != nil {
		return fmt.Errorf("find out whether the PodProtector was released: %w", err)
	}
	if released {
		r.Losses.forget(key, lost.last.UID)
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
	if err := carryDecrease(recreated, lost.last); err != nil {
		return err
	}
	if err := r.Client.Create(ctx, recreated, client.FieldOwner(Name)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the PodProtector anew: %w", err)
	}
	log.FromContext(ctx).Info("Recreated lost PodProtector", "protector", klog.KObj(recreated), "vanished", lost.last.UID)
	return nil
}

// finish gives a protector that was made anew the reservations of the one that vanished, and makes it whole.
func (r *Reconciler) finish(ctx context.Context, cached *v1alpha1.PodProtector) error {
	key, p := client.ObjectKeyFromObject(cached), &v1alpha1.PodProtector{}
	if err := r.Live.Get(ctx, key, p); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !quota.Unfinished(p) {
		return nil
	}
	what, pending := "What it had reserved is not known", decreaseOf(p)
	lost, known := r.Losses.of(key)
	if known && string(lost.last.UID) == p.Annotations[v1alpha1.AnnotationRestored] {
		p.Status.Cells = quota.Restored(&lost.last.Status)
		pending = decreaseOf(lost.last)
		what = fmt.Sprintf("It has its %d reservations", quota.BudgetOf(p).Reserved)
	}
	recallDecrease(p, pending)
	restored := metav1.Condition{
		Type: v1alpha1.ConditionRestored, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonVanished, ObservedGeneration: p.Generation,
		Message: fmt.Sprintf("This PodProtector vanished although nobody had released it, and was made anew. %s, and removals are "+
			"refused until its pods are counted anew, when all that may have been under way has come to its end.", what),
	}
	meta.SetStatusCondition(&p.Status.Conditions, restored)
	quota.Summarize(p)
	// A conflict is tried again: aggregators write conditions meanwhile, of which no event tells.
	if err := r.Client.Status().Update(ctx, p); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("restore the status: %w", err)
	}
	if known {
		r.Losses.forget(key, lost.last.UID)
	}
	r.metrics.restored.Inc()
	r.Events.Eventf(p, nil, corev1.EventTypeWarning, v1alpha1.ConditionRestored, "Restore", "%s", clusters.Note(restored.Message))
	return nil
}

// recall forgets the loss of a protector that is there and whole: as it was, since its core was restored to before its loss, or
// made anew by a write whose answer was lost.
func (r *Reconciler) recall(ctx context.Context, cached *v1alpha1.PodProtector) error {
	key, p := client.ObjectKeyFromObject(cached), &v1alpha1.PodProtector{}
	if err := r.Live.Get(ctx, key, p); err != nil {
		return client.IgnoreNotFound(err)
	}
	if lost, ok := r.Losses.of(key); ok && p.UID == cached.UID && !quota.Unfinished(p) {
		r.Losses.forget(key, lost.last.UID)
	}
	return nil
}

package generator

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/desired"
)

// resolution is what the condition TargetResolved of a protector should say. A change of it is an event too, so
// that each state is announced once, however often we come by and whoever leads.
type resolution struct {
	metav1.Condition
	eventType string
}

func newResolution(status metav1.ConditionStatus, reason, message, eventType string) resolution {
	return resolution{
		Condition: metav1.Condition{Type: v1alpha1.ConditionTargetResolved, Status: status, Reason: reason, Message: message},
		eventType: eventType,
	}
}

// resolved is the resolution of a protector whose Deployment exists and wants it.
func resolved(source *appsv1.Deployment, protector *v1alpha1.PodProtector, wanted desired.Protector) resolution {
	switch {
	case protector.DeletionTimestamp != nil:
		return newResolution(metav1.ConditionTrue, v1alpha1.ReasonDeletionHeld, fmt.Sprintf(
			"This PodProtector was deleted, but Deployment %s wants it: its finalizer keeps it in force until the Deployment is deleted or opts out.",
			source.Name), corev1.EventTypeWarning)
	case wanted.Reason == v1alpha1.ReasonRecreateStrategy:
		return newResolution(metav1.ConditionTrue, wanted.Reason, wanted.Message, corev1.EventTypeWarning)
	default:
		return newResolution(metav1.ConditionTrue, wanted.Reason, wanted.Message, corev1.EventTypeNormal)
	}
}

// vanished is the resolution of a protector whose Deployment is gone without having been deleted.
func vanished(source string) resolution {
	return newResolution(metav1.ConditionFalse, v1alpha1.ReasonSourceVanished, fmt.Sprintf(
		"Deployment %s is gone, but was not deleted on purpose: this PodProtector stays in force. Create the Deployment again, "+
			"or, if its pods need no protection any more, delete this PodProtector and then remove its finalizer %s.",
		source, v1alpha1.FinalizerProtector), corev1.EventTypeWarning)
}

func (r resolution) matches(protector *v1alpha1.PodProtector) bool {
	have := meta.FindStatusCondition(protector.Status.Conditions, r.Type)
	return have != nil && have.Status == r.Status && have.Reason == r.Reason && have.Message == r.Message
}

// resolve writes the condition if it says something new, and announces it. What is new is asked of the apiserver:
// the cache may not show our last write yet, and would make us announce it twice.
func (r *Reconciler) resolve(ctx context.Context, protector *v1alpha1.PodProtector, want resolution) error {
	if want.matches(protector) {
		return nil
	}
	live, err := get(ctx, r.Live, client.ObjectKeyFromObject(protector), &v1alpha1.PodProtector{})
	if err != nil {
		return fmt.Errorf("get the PodProtector from the apiserver: %w", err)
	}
	if live == nil || want.matches(live) {
		return nil
	}
	meta.SetStatusCondition(&live.Status.Conditions, want.Condition)
	condition := meta.FindStatusCondition(live.Status.Conditions, want.Type)
	if err := r.applyCondition(ctx, live, condition); err != nil {
		_, err = stale(err, "apply the condition "+want.Type)
		return err
	}
	log.FromContext(ctx).Info("condition changed", "protector", klog.KObj(live), "condition", want.Type, "status", want.Status, "reason", want.Reason)
	r.Events.Eventf(live, nil, want.eventType, want.Reason, "Resolve", "%s", note(want.Message))
	return nil
}

// applyCondition writes this one condition and leaves the rest of the status to its owners. Server-side apply
// needs no resourceVersion, so it neither loses against the webhooks in a storm nor undoes what they wrote.
func (r *Reconciler) applyCondition(ctx context.Context, protector *v1alpha1.PodProtector, condition *metav1.Condition) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(condition)
	if err != nil {
		return err
	}
	object := newApply(protector, protector.UID)
	object.Object["status"] = map[string]any{"conditions": []any{fields}}
	return r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(Name), client.ForceOwnership)
}

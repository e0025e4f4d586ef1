package generator

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/desired"
	"github.com/breakwater-k8s/breakwater/internal/fleet"
)

// protect gives a Deployment its protector and repairs what has drifted. The Deployment gets its finalizer
// first: there must be no time in which it has a protector and can be deleted unseen.
func (r *Reconciler) protect(ctx context.Context, source *appsv1.Deployment, protector *v1alpha1.PodProtector) (outcome, error) {
	if protector != nil && !desired.IsGenerated(protector) {
		return r.refuseName(source, protector)
	}
	wanted, err := desired.FromDeployment(source)
	if err != nil {
		return r.refuse(source, err)
	}
	if err := r.hold(ctx, source); err != nil {
		return stale(err, "add the finalizer to the Deployment")
	}
	if protector == nil {
		return r.create(ctx, source, wanted)
	}
	if isReleased(protector) {
		// Only another finalizer keeps it. Ours cannot be put back; when it is gone we make a new one.
		return outdated, nil
	}
	if differs(protector, wanted.Object) {
		if err := r.apply(ctx, wanted.Object, protector.UID); refusesSpec(err) {
			return r.refuse(source, err)
		} else if err != nil {
			return stale(err, "apply the PodProtector")
		}
		r.Metrics.writes.WithLabelValues("update").Inc()
		log.FromContext(ctx).Info("PodProtector updated", "protector", klog.KObj(protector), "floor", wanted.Object.Spec.MinAvailable)
	}
	return protected, r.resolve(ctx, protector, resolved(source, protector, wanted))
}

// create makes the protector. Two live reads come first: a cache that lags behind could make us restore the
// protector of a Deployment that was released, which then stayed for ever, or take over a user's protector.
func (r *Reconciler) create(ctx context.Context, source *appsv1.Deployment, wanted desired.Protector) (outcome, error) {
	live, err := get(ctx, r.Live, client.ObjectKeyFromObject(source), &appsv1.Deployment{})
	if err != nil {
		return "", fmt.Errorf("get the Deployment from the apiserver: %w", err)
	}
	if live == nil || live.UID != source.UID || live.DeletionTimestamp != nil {
		return outdated, nil
	}
	protector, err := get(ctx, r.Live, client.ObjectKeyFromObject(wanted.Object), &v1alpha1.PodProtector{})
	if err != nil {
		return "", fmt.Errorf("get the PodProtector from the apiserver: %w", err)
	}
	if protector != nil || r.Losses != nil && r.Losses.Has(client.ObjectKeyFromObject(wanted.Object)) {
		return outdated, nil
	}
	r.doubt(source, wanted.Object)
	if err := r.apply(ctx, wanted.Object, ""); refusesSpec(err) {
		return r.refuse(source, err)
	} else if err != nil {
		return stale(err, "create the PodProtector")
	}
	r.Metrics.writes.WithLabelValues("create").Inc()
	log.FromContext(ctx).Info("PodProtector created", "protector", klog.KObj(wanted.Object), "floor", wanted.Object.Spec.MinAvailable)
	return protected, r.resolve(ctx, wanted.Object, resolved(source, wanted.Object, wanted))
}

// doubt marks a protector that may not be the first one of its Deployment, which has our finalizer already: who knows what was
// reserved with the one that vanished before this process came.
func (r *Reconciler) doubt(source *appsv1.Deployment, wanted *v1alpha1.PodProtector) {
	if r.Losses != nil && slices.Contains(source.Finalizers, v1alpha1.FinalizerSource) {
		wanted.Annotations[v1alpha1.AnnotationRestored] = ""
	}
}

// refuseName leaves a protector alone that somebody else made.
func (r *Reconciler) refuseName(source *appsv1.Deployment, protector *v1alpha1.PodProtector) (outcome, error) {
	r.Events.Eventf(source, protector, corev1.EventTypeWarning, string(nameTaken), "Protect",
		"PodProtector %s is not the generator's and stays as it is: this Deployment has no generated protector. Rename or delete that PodProtector.",
		protector.Name)
	return nameTaken, reconcile.TerminalError(fmt.Errorf("PodProtector %s/%s is not ours: it lacks the label %s=%s",
		protector.Namespace, protector.Name, desired.LabelManagedBy, desired.ManagedBy))
}

// refuse tells the owner of a Deployment that it asks for a protector that cannot be. Only a change of the
// Deployment can mend that, so there is nothing to try again.
func (r *Reconciler) refuse(source *appsv1.Deployment, reason error) (outcome, error) {
	r.Events.Eventf(source, nil, corev1.EventTypeWarning, string(refused), "Protect", "%s",
		fleet.Note("This Deployment has no PodProtector that fits it: "+reason.Error()))
	return refused, reconcile.TerminalError(fmt.Errorf("the PodProtector was refused: %w", reason))
}

package generator

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/desired"
)

// keep leaves a protector in force whose Deployment is gone without an explicit deletion: that is what an
// accident looks like. A deletion on purpose is never seen like this, because the Deployment's finalizer holds it
// until its protector is released.
func (r *Reconciler) keep(ctx context.Context, request reconcile.Request, protector *v1alpha1.PodProtector) (outcome, error) {
	if !desired.IsGenerated(protector) || isReleased(protector) {
		return ignored, nil
	}
	want := vanished(request.Name)
	if want.Stands(protector) {
		return sourceVanished, nil
	}
	source, err := get(ctx, r.Live, request.NamespacedName, &appsv1.Deployment{})
	if err != nil {
		return "", fmt.Errorf("get the Deployment from the apiserver: %w", err)
	}
	if source != nil {
		return outdated, nil
	}
	return sourceVanished, r.resolve(ctx, protector, want)
}

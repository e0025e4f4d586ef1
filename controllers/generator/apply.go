package generator

import (
	"context"
	"encoding/json"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/fleet"
)

// differs tells whether a protector has drifted in something that the generator owns.
func differs(protector, wanted *v1alpha1.PodProtector) bool {
	return !contains(protector.Labels, wanted.Labels) ||
		!contains(protector.Annotations, wanted.Annotations) ||
		!slices.Contains(protector.Finalizers, v1alpha1.FinalizerProtector) ||
		!equality.Semantic.DeepEqual(protector.Spec.MinAvailable, wanted.Spec.MinAvailable) ||
		protector.Spec.MinReadySeconds != wanted.Spec.MinReadySeconds ||
		!equality.Semantic.DeepEqual(protector.Spec.Selector, wanted.Spec.Selector)
}

func contains(all, part map[string]string) bool {
	for key, value := range part {
		if got, ok := all[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// apply writes what the generator owns. A uid makes it an update of that very object; without one it creates.
// Numbers are written also when they are 0: a field that is left out is not ours, and its drift would stay.
func (r *Reconciler) apply(ctx context.Context, wanted *v1alpha1.PodProtector, uid types.UID) error {
	selector, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted.Spec.Selector)
	if err != nil {
		return err
	}
	object := fleet.NewApply(wanted, uid)
	object.SetLabels(wanted.Labels)
	object.SetAnnotations(wanted.Annotations)
	object.SetFinalizers(wanted.Finalizers)
	object.Object["spec"] = map[string]any{
		"selector":        selector,
		"minAvailable":    int64(wanted.Spec.MinAvailable.IntVal),
		"minReadySeconds": int64(wanted.Spec.MinReadySeconds),
	}
	return r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(Name), client.ForceOwnership)
}

// hold makes sure that the Deployment carries our finalizer.
func (r *Reconciler) hold(ctx context.Context, source *appsv1.Deployment) error {
	if slices.Contains(source.Finalizers, v1alpha1.FinalizerSource) {
		return nil
	}
	if err := r.patchFinalizer(ctx, source, "finalizers"); err != nil {
		return err
	}
	log.FromContext(ctx).Info("finalizer added to the Deployment", "finalizer", v1alpha1.FinalizerSource)
	return nil
}

// letGo makes sure that the Deployment does not carry our finalizer.
func (r *Reconciler) letGo(ctx context.Context, source *appsv1.Deployment) error {
	if !slices.Contains(source.Finalizers, v1alpha1.FinalizerSource) {
		return nil
	}
	if err := r.patchFinalizer(ctx, source, "$deleteFromPrimitiveList/finalizers"); err != nil {
		return err
	}
	log.FromContext(ctx).Info("finalizer removed from the Deployment", "finalizer", v1alpha1.FinalizerSource)
	return nil
}

// patchFinalizer adds or removes our finalizer and nothing else, by a directive of strategic merge patches. It
// needs no resourceVersion, so that a rollout, which writes the Deployment's status all the time, cannot make
// it fail; the UID keeps it from a new Deployment of the old name. The object from the cache is not touched.
func (r *Reconciler) patchFinalizer(ctx context.Context, source *appsv1.Deployment, directive string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": source.UID, directive: []string{v1alpha1.FinalizerSource}},
	})
	if err != nil {
		return err
	}
	return r.Client.Patch(ctx, source.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(Name))
}

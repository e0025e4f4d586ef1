package generator

import (
	"context"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// sourceFinalizer adds and removes the finalizer of sources: a source with it exists until its protectors are released.
type sourceFinalizer struct {
	client client.Client
	kinds  *Kinds
}

// add ensures that the source has the generator's finalizer.
func (f *sourceFinalizer) add(ctx context.Context, ref policy.Ref, source client.Object) error {
	if slices.Contains(source.GetFinalizers(), v1alpha1.FinalizerSource) {
		return nil
	}
	if isBuiltIn(ref) {
		if err := f.patch(ctx, source, "finalizers"); err != nil {
			return err
		}
	} else {
		kind, _, err := f.kinds.resourceOf(ref.GroupKind())
		if err != nil {
			return err
		}
		if err := clusters.AddFinalizer(ctx, f.client, kind, source, v1alpha1.FinalizerSource, Name); err != nil {
			return err
		}
	}
	log.FromContext(ctx).Info("Added finalizer to source", "finalizer", v1alpha1.FinalizerSource)
	return nil
}

// remove ensures that the source does not have the generator's finalizer.
func (f *sourceFinalizer) remove(ctx context.Context, ref policy.Ref, source client.Object) error {
	if !slices.Contains(source.GetFinalizers(), v1alpha1.FinalizerSource) {
		return nil
	}
	if isBuiltIn(ref) {
		if err := f.patch(ctx, source, "$deleteFromPrimitiveList/finalizers"); err != nil {
			return err
		}
	} else {
		live, err := f.kinds.getLive(ctx, ref)
		if err != nil || live == nil || live.GetUID() != source.GetUID() {
			return err
		}
		if err := clusters.DropFinalizer(ctx, f.client, live, v1alpha1.FinalizerSource, Name); err != nil {
			return err
		}
	}
	log.FromContext(ctx).Info("Removed finalizer from source", "finalizer", v1alpha1.FinalizerSource)
	return nil
}

// patch adds or removes the generator's finalizer and nothing else, by a directive of strategic merge patches. It sends no
// resourceVersion, so the constant status writes of a rollout cannot make it fail. The UID keeps it from changing a new source of the same
// name. It does not change source, which belongs to the cache.
func (f *sourceFinalizer) patch(ctx context.Context, source client.Object, directive string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": source.GetUID(), directive: []string{v1alpha1.FinalizerSource}},
	})
	if err != nil {
		return err
	}
	return f.client.Patch(ctx, source.DeepCopyObject().(client.Object), client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(Name))
}

package finalizers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

const fieldManager = "breakwater-release"

// Release removes the finalizers of Breakwater from an object and keeps the others. It does nothing if the object was deleted or
// recreated. That ends a protector that is being deleted, so it records the release first: components that miss the end would take it for vanished.
// A user who may not create events releases it without a record.
func (f *Finder) Release(ctx context.Context, hold *HeldObject) error {
	resource := f.Metadata.Resource(hold.Resource).Namespace(hold.Object.Namespace)
	for {
		live, err := resource.Get(ctx, hold.Object.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && live.UID != hold.Object.UID {
			return nil
		}
		if err != nil {
			return fmt.Errorf("get %s: %w", hold.Name(), err)
		}
		if len(ownFinalizers(live.Finalizers)) == 0 {
			return nil
		}
		if hold.Kind.Kind == "PodProtector" && live.DeletionTimestamp != nil {
			protector := &v1alpha1.PodProtector{ObjectMeta: live.ObjectMeta}
			if err := clusters.RecordRelease(ctx, f.Events, protector, fieldManager); err != nil && !apierrors.IsForbidden(err) {
				return fmt.Errorf("release %s: %w", hold.Name(), err)
			}
		}
		patch, err := removalPatch(live)
		if err != nil {
			return err
		}
		_, err = resource.Patch(ctx, live.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		switch {
		case err == nil, apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsConflict(err):
			return fmt.Errorf("release %s: %w", hold.Name(), err)
		}
	}
}

// removalPatch returns a patch that keeps only the other finalizers. It applies only to the resource version that was read.
func removalPatch(live *metav1.PartialObjectMetadata) ([]byte, error) {
	foreign := slices.DeleteFunc(slices.Clone(live.Finalizers), func(finalizer string) bool { return strings.HasPrefix(finalizer, finalizerPrefix) })
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.UID, "resourceVersion": live.ResourceVersion, "finalizers": foreign,
	}})
}

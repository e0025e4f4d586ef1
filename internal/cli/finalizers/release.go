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
	"k8s.io/client-go/metadata"
)

// Release removes the finalizers of Breakwater from an object and keeps the others. It does nothing if the object was deleted or
// recreated.
func Release(ctx context.Context, client metadata.Interface, hold *HeldObject) error {
	resource := client.Resource(hold.Resource).Namespace(hold.Object.Namespace)
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
		patch, err := removalPatch(live)
		if err != nil {
			return err
		}
		_, err = resource.Patch(ctx, live.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "breakwater-release"})
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

package clusters

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LookAgain is how soon a controller looks again at an object for which it has done something. A core that is restored to before that, when
// the watch has not shown it yet, sends no event.
const LookAgain = 10 * time.Second

// AddFinalizer gives a finalizer to an object by applying that alone: the finalizers of others are theirs. It needs no
// resourceVersion, so that a storm, which writes the status all the time, cannot make it fail; the UID keeps it from a new
// object of the old name. owner is the field manager.
func AddFinalizer(ctx context.Context, writer client.Client, kind schema.GroupVersionKind, object client.Object, finalizer, owner string) error {
	fields := &unstructured.Unstructured{}
	fields.SetGroupVersionKind(kind)
	fields.SetNamespace(object.GetNamespace())
	fields.SetName(object.GetName())
	fields.SetUID(object.GetUID())
	fields.SetFinalizers([]string{finalizer})
	return writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(fields), client.FieldOwner(owner), client.ForceOwnership)
}

// DropFinalizer takes a finalizer off an object by a JSON patch that tests what it removes, without a resourceVersion either.
// The object itself, which may be a cache's, is not touched.
func DropFinalizer(ctx context.Context, writer client.Writer, object client.Object, finalizer, owner string) error {
	position := slices.Index(object.GetFinalizers(), finalizer)
	if position < 0 {
		return nil
	}
	path := fmt.Sprintf("/metadata/finalizers/%d", position)
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": object.GetUID()},
		{"op": "test", "path": path, "value": finalizer},
		{"op": "remove", "path": path},
	})
	if err != nil {
		return err
	}
	patched, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("a copy of %T is none", object)
	}
	return writer.Patch(ctx, patched, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(owner))
}

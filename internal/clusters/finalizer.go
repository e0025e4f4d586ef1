package clusters

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RecheckInterval is how soon a controller reconciles an object again after it changed that object. If the core is restored to a state before the
// change, and the watch has not shown the change yet, the core sends no event.
const RecheckInterval = 10 * time.Second

// AddFinalizer adds a finalizer to an object. It applies that finalizer alone, so other owners keep theirs. It sends no resourceVersion, so
// the constant status writes of a storm cannot make it fail. The UID keeps it from changing a new object of the same name. owner is the
// field manager.
func AddFinalizer(ctx context.Context, writer client.Client, kind schema.GroupVersionKind, object client.Object, finalizer, owner string) error {
	fields := NewApply(kind, object, object.GetUID())
	fields.SetFinalizers([]string{finalizer})
	return writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(fields), client.FieldOwner(owner), client.ForceOwnership)
}

// Test is a condition of a patch: the field at a JSON pointer has a value.
type Test struct{ Path, Value string }

// DropFinalizer removes a finalizer from an object by a JSON patch that tests what it removes. It fails if the generation, UID or finalizer
// differs from object, on which the caller decided, or if one of the tests fails; it sends no resourceVersion. It does not change object, which may
// belong to a cache.
func DropFinalizer(ctx context.Context, writer client.Writer, object client.Object, finalizer, owner string, tests ...Test) error {
	position := slices.Index(object.GetFinalizers(), finalizer)
	if position < 0 {
		return nil
	}
	path := fmt.Sprintf("/metadata/finalizers/%d", position)
	operations := []map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": object.GetUID()},
		{"op": "test", "path": path, "value": finalizer},
		{"op": "remove", "path": path},
	}
	if generation := object.GetGeneration(); generation > 0 { // some kinds have none
		operations = slices.Insert(operations, 0, map[string]any{"op": "test", "path": "/metadata/generation", "value": generation})
	}
	for _, test := range tests {
		operations = slices.Insert(operations, 0, map[string]any{"op": "test", "path": test.Path, "value": test.Value})
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return err
	}
	return writer.Patch(ctx, object.DeepCopyObject().(client.Object), client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(owner))
}

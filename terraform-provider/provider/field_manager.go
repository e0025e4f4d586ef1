package provider

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/breakwater-k8s/breakwater/terraform-provider/connection"
)

// managerKey is the key in the private state of the field manager by which this provider applied or imported the object last.
const managerKey = "field-manager"

// privateState is the private state of a resource.
type privateState interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

// readPrivate reads a value from the private state. It leaves the value unchanged if there is none.
func readPrivate(ctx context.Context, private privateState, key string, into any) diag.Diagnostics {
	raw, d := private.GetKey(ctx, key)
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, into); err != nil {
			d.AddError("The private state could not be read", err.Error())
		}
	}
	return d
}

// lastManager returns the field manager by which this provider applied an object last. Versions that did not record it had only the
// default.
func lastManager(ctx context.Context, private privateState) (string, diag.Diagnostics) {
	last := connection.DefaultFieldManager
	d := readPrivate(ctx, private, managerKey, &last)
	return last, d
}

// writablePrivateState is the private state that an operation returns.
type writablePrivateState interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// record records the field manager and the cluster in the private state.
func (c *cluster) record(ctx context.Context, private writablePrivateState) diag.Diagnostics {
	d := writePrivate(ctx, private, managerKey, c.manager)
	d.Append(c.recordCluster(ctx, private)...)
	return d
}

func writePrivate(ctx context.Context, private writablePrivateState, key, value string) diag.Diagnostics {
	raw, _ := json.Marshal(value) // a string always has a JSON form
	return private.SetKey(ctx, key, raw)
}

// inheritFields transfers the fields of the former manager to our manager, and applies again. Otherwise no field could be removed from
// the configuration any more: a field that a former manager also owns stays in the object forever.
func (c *cluster) inheritFields(ctx context.Context, k *kind, w *desired, t takeover) (*unstructured.Unstructured, error) {
	objects := c.resourceClient(k, w.namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := objects.Get(ctx, w.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		entries, err := withInheritedFields(live.GetManagedFields(), k.Kind.GroupVersion().String(), c.manager, t.former)
		if entries == nil || err != nil {
			return err
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": live.GetResourceVersion(), "managedFields": entries}})
		if err != nil {
			return err
		}
		_, err = objects.Patch(ctx, w.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: c.manager})
		return err
	})
	if err != nil {
		return nil, err
	}
	return objects.Apply(ctx, w.name, w.object, metav1.ApplyOptions{FieldManager: c.manager, Force: t.force})
}

// withInheritedFields returns the managed fields after the former manager has transferred its fields to our manager. It returns nil if there
// is nothing to transfer.
func withInheritedFields(entries []metav1.ManagedFieldsEntry, version, manager, former string) ([]metav1.ManagedFieldsEntry, error) {
	theirs, others := &fieldpath.Set{}, []metav1.ManagedFieldsEntry{}
	for _, entry := range entries {
		isOurs := entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply
		if entry.Subresource != "" || entry.APIVersion != version || entry.FieldsV1 == nil || !isOurs && entry.Manager != former {
			others = append(others, entry)
			continue
		}
		owned := &fieldpath.Set{}
		if err := owned.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, err
		}
		theirs = theirs.Union(owned)
	}
	raw, err := theirs.ToJSON()
	if err != nil || len(entries)-len(others) < 2 {
		return nil, err
	}
	now := metav1.Now()
	return append(others, metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: version,
		Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw))}), nil
}

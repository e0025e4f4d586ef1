package provider

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// desired is the object that a plan, a state or a configuration describes.
type desired struct {
	namespace, name string
	// attributes are those of the resource.
	attributes map[string]tftypes.Value
	// object is what the provider applies. It has no unknown values; unknown lists their paths.
	object  *unstructured.Unstructured
	unknown []shape.Path
}

// String returns the object's name, with its namespace if it has one.
func (w *desired) String() string { return strings.TrimPrefix(w.namespace+"/"+w.name, "/") }

// attributes returns the attributes of a resource. Those of a null resource are all null.
func attributes(raw tftypes.Value) (map[string]tftypes.Value, error) {
	all := map[string]tftypes.Value{}
	if of, ok := raw.Type().(tftypes.Object); ok && raw.IsNull() {
		for name, t := range of.AttributeTypes {
			all[name] = tftypes.NewValue(t, nil)
		}
		return all, nil
	}
	return all, raw.As(&all)
}

// desired builds the object from the attributes of a resource.
func (k *kind) desired(raw tftypes.Value) (*desired, error) {
	all, err := attributes(raw)
	if err != nil {
		return nil, err
	}
	metadata, err := metadataFields.Encode(shape.Path{"metadata"}, all)
	if err != nil {
		return nil, err
	}
	spec, err := k.Spec.Fields.Encode(shape.Path{"spec"}, all)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata.Value, "spec": spec.Value}}
	object.SetGroupVersionKind(k.Kind)
	return &desired{
		namespace: object.GetNamespace(), name: object.GetName(), attributes: all, object: object, unknown: slices.Concat(metadata.Unknown, spec.Unknown),
	}, nil
}

// metadataFields are the attributes of an object's metadata. Only namespaced kinds have a namespace.
//
//nolint:gochecknoglobals // a constant; Go has no composite constants
var metadataFields = shape.Fields{
	{JSON: "name", Name: "name", Kind: shape.String},
	{JSON: "namespace", Name: "namespace", Kind: shape.String},
	{JSON: "labels", Name: "labels", Kind: shape.Map, Element: &shape.Field{Kind: shape.String}},
	{JSON: "annotations", Name: "annotations", Kind: shape.Map, Element: &shape.Field{Kind: shape.String}},
}

// refreshedState returns the state of a resource: its state before, updated with the object in the cluster. It includes only the fields
// that Terraform had set or owns, by any of the field managers. An object that Terraform has not created is adopted completely.
func (k *kind) refreshedState(before tftypes.Value, live *unstructured.Unstructured, managers ...string) (tftypes.Value, error) {
	had, err := k.desired(before)
	if err != nil {
		return tftypes.Value{}, err
	}
	all := maps.Clone(had.attributes)
	adopted := all["uid"].IsNull()
	owned := shape.Owned(live.GetManagedFields(), managers...)
	spec := k.Spec.Show(had.object.Object["spec"], live.Object["spec"], shape.Below(owned, "spec"))
	if adopted {
		spec = k.Spec.Adopt(live.Object["spec"])
	}
	fields, _ := spec.(map[string]any)
	for _, f := range k.Spec.Fields {
		if all[f.Name], err = f.Decode(fields[f.JSON]); err != nil {
			return tftypes.Value{}, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	ownedMetadata := shape.Below(owned, "metadata")
	for name, now := range map[string]map[string]string{"labels": live.GetLabels(), "annotations": live.GetAnnotations()} {
		var shown map[string]any
		if adopted {
			shown = adoptKeys(now)
		} else {
			shown = shape.ShowKeys(had.keys(name), now, shape.Below(ownedMetadata, name))
		}
		var value any
		if shown != nil {
			value = shown
		}
		if all[name], err = metadataFields[2].Decode(value); err != nil {
			return tftypes.Value{}, err
		}
	}
	all["name"] = stringValue(live.GetName())
	if k.Namespaced {
		all["namespace"] = stringValue(live.GetNamespace())
	}
	all["id"] = stringValue(strings.TrimPrefix(live.GetNamespace()+"/"+live.GetName(), "/"))
	all["uid"] = stringValue(string(live.GetUID()))
	for name, v := range k.behaviorDefaults() {
		if all[name].IsNull() {
			all[name] = v
		}
	}
	return tftypes.NewValue(before.Type(), all), nil
}

// behaviorDefaults returns the defaults of the attributes that control how Terraform manages the object.
func (k *kind) behaviorDefaults() map[string]tftypes.Value {
	return map[string]tftypes.Value{"force_conflicts": tftypes.NewValue(tftypes.Bool, false), "deletion_protection": tftypes.NewValue(tftypes.Bool, k.protected)}
}

func stringValue(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }

func (w *desired) keys(name string) map[string]any {
	keys, _, _ := unstructured.NestedMap(w.object.Object, "metadata", name)
	return keys
}

// adoptKeys returns labels or annotations without those that components write.
func adoptKeys(now map[string]string) map[string]any {
	var shown map[string]any
	for key, v := range now {
		domain, _, _ := strings.Cut(key, "/")
		if domain == "breakwater.dev" || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") {
			continue
		}
		if shown == nil {
			shown = map[string]any{}
		}
		shown[key] = v
	}
	return shown
}

// isTrue reports whether a bool attribute is known and true.
func isTrue(all map[string]tftypes.Value, name string) bool {
	var b bool
	v := all[name]
	return v.IsKnown() && !v.IsNull() && v.As(&b) == nil && b
}

// stringAttribute returns a string attribute; the empty string if it is unknown or null.
func stringAttribute(all map[string]tftypes.Value, name string) string {
	var s string
	if v, ok := all[name]; ok && v.IsKnown() && !v.IsNull() {
		_ = v.As(&s)
	}
	return s
}

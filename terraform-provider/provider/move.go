package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// MoveState takes over objects from kubernetes_manifest and kubectl_manifest, for moved blocks. Terraform calls it before the
// provider has a cluster, so it uses only their state. Terraform reads the object itself right afterwards.
func (o *object) MoveState(context.Context) []resource.StateMover {
	return []resource.StateMover{{StateMover: o.move}}
}

func (o *object) move(ctx context.Context, req resource.MoveStateRequest, resp *resource.MoveStateResponse) {
	read, ok := map[string]func([]byte) (*moved, error){"kubernetes_manifest": parseManifestState, "kubectl_manifest": parseKubectlState}[req.SourceTypeName]
	if !ok || req.SourceRawState == nil {
		resp.Diagnostics.AddError(fmt.Sprintf("A %s cannot become a breakwater_%s", req.SourceTypeName, o.kind.name),
			fmt.Sprintf("Only a kubernetes_manifest and a kubectl_manifest can. Import the object instead, by %s, "+
				"and use a removed block with destroy = false instead of the moved block.", o.kind.idForm()))
		return
	}
	from, err := read(req.SourceRawState.JSON)
	if err == nil && from.object.GroupVersionKind().GroupKind() != o.kind.Kind.GroupKind() {
		resp.Diagnostics.AddError(fmt.Sprintf("A %s cannot become a breakwater_%s", from.object.GetKind(), o.kind.name),
			fmt.Sprintf("The object %q of this %s is a %s of %s, and a breakwater_%s is a %s of %s. Point the moved block to a resource of the same kind.",
				from.object.GetName(), req.SourceTypeName, from.object.GetKind(), from.object.GetAPIVersion(),
				o.kind.name, o.kind.Kind.Kind, o.kind.Kind.GroupVersion()))
		return
	}
	if err == nil {
		resp.TargetState.Raw, err = o.kind.stateOf(resp.TargetState.Schema.Type().TerraformType(ctx), from)
	}
	if err != nil {
		resp.Diagnostics.AddError("The state of a "+req.SourceTypeName+" could not be read", sentence(err.Error()))
		return
	}
	if resp.TargetIdentity != nil {
		w := &desired{namespace: o.kind.namespaceOf(from), name: from.object.GetName()}
		o.setIdentity(ctx, resp.TargetIdentity, w, &resp.Diagnostics)
	}
	former, _ := json.Marshal(from.managers)
	resp.Diagnostics.Append(resp.TargetPrivate.SetKey(ctx, formerKey, former)...)
}

// stateOf returns the state of a resource that has set the values of the manifest, and no values of other field managers.
func (k *kind) stateOf(t tftypes.Type, from *moved) (tftypes.Value, error) {
	nothing, err := nullState(t)
	if err != nil {
		return tftypes.Value{}, err
	}
	all, err := attributes(nothing)
	if err != nil {
		return tftypes.Value{}, err
	}
	if err := k.setSpec(all, from); err != nil {
		return tftypes.Value{}, err
	}
	if err := setKeys(all, from); err != nil {
		return tftypes.Value{}, err
	}
	name, namespace := from.object.GetName(), k.namespaceOf(from)
	all["name"], all["id"] = stringValue(name), stringValue(strings.TrimPrefix(namespace+"/"+name, "/"))
	if k.Namespaced {
		all["namespace"] = stringValue(namespace)
	}
	if uid := from.object.GetUID(); uid != "" {
		all["uid"] = stringValue(string(uid))
	}
	all["force_conflicts"] = tftypes.NewValue(tftypes.Bool, false)
	all["deletion_protection"] = tftypes.NewValue(tftypes.Bool, k.protected)
	return tftypes.NewValue(t, all), nil
}

// nullState returns a resource whose attributes are all null.
func nullState(t tftypes.Type) (tftypes.Value, error) {
	o, ok := t.(tftypes.Object)
	if !ok {
		return tftypes.Value{}, fmt.Errorf("a resource is %s", t)
	}
	all := make(map[string]tftypes.Value, len(o.AttributeTypes))
	for name, of := range o.AttributeTypes {
		all[name] = tftypes.NewValue(of, nil)
	}
	return tftypes.NewValue(t, all), nil
}

func (k *kind) setSpec(all map[string]tftypes.Value, from *moved) error {
	spec, ok := from.object.Object["spec"].(map[string]any)
	if !ok && from.object.Object["spec"] != nil {
		return errors.New("its spec is not an object")
	}
	if from.isLiveObject {
		spec, _ = k.Spec.Adopt(spec).(map[string]any)
	}
	for _, f := range k.Spec.Fields {
		var err error
		if all[f.Name], err = f.Decode(filled(f, spec[f.JSON])); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

func setKeys(all map[string]tftypes.Value, from *moved) error {
	for name, keys := range map[string]map[string]string{"labels": from.object.GetLabels(), "annotations": from.object.GetAnnotations()} {
		var taken map[string]any
		if from.isLiveObject {
			taken = adoptKeys(keys)
		} else {
			// The user wrote all of these keys, including those of kubernetes.io.
			taken = make(map[string]any, len(keys))
			for key, v := range keys {
				taken[key] = v
			}
		}
		if len(taken) == 0 {
			continue
		}
		var err error
		if all[name], err = metadataFields[2].Decode(taken); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// namespaceOf returns the namespace of the object. An object without one is in the namespace default.
func (k *kind) namespaceOf(from *moved) string {
	switch namespace := from.object.GetNamespace(); {
	case !k.Namespaced:
		return ""
	case namespace == "":
		return "default"
	default:
		return namespace
	}
}

// filled adds the defaults that Terraform sets for missing values. Where the API server set a default before, Terraform now sets
// the same value.
func filled(f *shape.Field, value any) any {
	if value == nil {
		if f.Default == nil || f.UnownedIfUnset {
			return nil
		}
		value = f.Default
	}
	switch given := value.(type) {
	case map[string]any:
		if f.Kind != shape.Object {
			return value
		}
		object := maps.Clone(given)
		for _, c := range f.Fields {
			if v := filled(c, given[c.JSON]); v != nil {
				object[c.JSON] = v
			}
		}
		return object
	case []any:
		if f.Element == nil || f.Element.Kind != shape.Object {
			return value
		}
		list := make([]any, len(given))
		for i, v := range given {
			list[i] = filled(f.Element, v)
		}
		return list
	default:
		return value
	}
}

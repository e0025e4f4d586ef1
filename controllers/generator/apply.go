package generator

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// applier writes what the generator owns of a protector, by server-side apply with a field manager of its own.
type applier struct{ client client.Client }

// apply writes the fields that the generator owns. A uid restricts it to an update of that very object; without one it creates.
func (a *applier) apply(ctx context.Context, wanted policy.Protector, uid types.UID) error {
	spec, err := ownedSpec(wanted)
	if err != nil {
		return err
	}
	object := clusters.NewApply(v1alpha1.GroupVersion.WithKind("PodProtector"), wanted.Object, uid)
	object.SetLabels(wanted.Object.Labels)
	object.SetAnnotations(wanted.Object.Annotations)
	object.SetFinalizers(wanted.Object.Finalizers)
	object.Object["spec"] = spec
	return a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(Name), client.ForceOwnership)
}

// correctDrift makes an existing protector match wanted. It first removes fields of other clients that exclude one of wanted: the API server
// rejects an object with both, and applying the generator's fields does not remove theirs.
func (a *applier) correctDrift(ctx context.Context, protector *v1alpha1.PodProtector, wanted policy.Protector) error {
	have, want := &protector.Spec, &wanted.Object.Spec
	spec, err := ownedSpec(wanted)
	if err != nil {
		return err
	}
	foreign := map[string]bool{
		"minAvailable":   have.MinAvailable != nil && want.MinAvailable == nil,
		"maxUnavailable": have.MaxUnavailable != nil && want.MaxUnavailable == nil,
		"targetRef":      have.TargetRef != nil,
	}
	for field, isForeign := range foreign {
		if isForeign {
			spec[field] = nil
		}
	}
	if slices.Contains(slices.Collect(maps.Values(foreign)), true) {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": protector.UID}, "spec": spec})
		if err != nil {
			return err
		}
		if err := a.client.Patch(ctx, protector.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(Name)); err != nil {
			return err
		}
	}
	return a.apply(ctx, wanted, protector.UID)
}

// ownedSpec returns the part of a spec that the generator owns. It includes numbers that are 0: the generator would not own an omitted field,
// and would not correct its drift.
func ownedSpec(wanted policy.Protector) (map[string]any, error) {
	from := &wanted.Object.Spec
	spec := map[string]any{"minReadySeconds": int64(from.MinReadySeconds)}
	for name, value := range map[string]*intstr.IntOrString{"minAvailable": from.MinAvailable, "maxUnavailable": from.MaxUnavailable} {
		switch {
		case value == nil:
		case value.Type == intstr.Int:
			spec[name] = int64(value.IntVal)
		default:
			spec[name] = value.StrVal
		}
	}
	for name, value := range map[string]string{
		"criterion": string(from.Criterion), "coreOutage": string(from.CoreOutage), "targetRemovalPolicy": string(from.TargetRemovalPolicy),
	} {
		if value != "" {
			spec[name] = value
		}
	}
	if len(from.Operations) > 0 {
		operations := make([]any, 0, len(from.Operations))
		for _, operation := range from.Operations {
			operations = append(operations, string(operation))
		}
		spec["operations"] = operations
	}
	for name, value := range map[string]any{
		"selector": from.Selector, "exemptPodSelector": from.ExemptPodSelector, "spread": from.Spread, "admissionHistory": wanted.Tuning,
	} {
		if reflect.ValueOf(value).IsNil() {
			continue
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(value)
		if err != nil {
			return nil, err
		}
		spec[name] = fields
	}
	return spec, nil
}

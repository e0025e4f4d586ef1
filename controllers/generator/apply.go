package generator

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// differs reports whether a protector differs from wanted in a field that the generator owns. A field that its policy no longer sets shows
// as a difference in the record of the policy.
func differs(protector *v1alpha1.PodProtector, wanted policy.Protector) bool {
	have, want := &protector.Spec, &wanted.Object.Spec
	return !containsAll(protector.Labels, wanted.Object.Labels) ||
		!containsAll(protector.Annotations, wanted.Object.Annotations) ||
		!slices.Contains(protector.Finalizers, v1alpha1.FinalizerProtector) ||
		slices.ContainsFunc(ownedAnnotations(), func(key string) bool {
			return protector.Annotations[key] != wanted.Object.Annotations[key]
		}) ||
		!equality.Semantic.DeepEqual(have.MinAvailable, want.MinAvailable) ||
		!equality.Semantic.DeepEqual(have.MaxUnavailable, want.MaxUnavailable) ||
		have.TargetRef != nil ||
		have.MinReadySeconds != want.MinReadySeconds ||
		!equality.Semantic.DeepEqual(have.Selector, want.Selector) ||
		want.Criterion != "" && have.Criterion != want.Criterion ||
		want.TargetRemovalPolicy != "" && have.TargetRemovalPolicy != want.TargetRemovalPolicy ||
		want.ExemptPodSelector != nil && !equality.Semantic.DeepEqual(have.ExemptPodSelector, want.ExemptPodSelector) ||
		want.Spread != nil && !equality.Semantic.DeepEqual(have.Spread, want.Spread) ||
		slices.ContainsFunc(want.Operations, func(o v1alpha1.Operation) bool { return !slices.Contains(have.Operations, o) }) ||
		differsInTuning(&have.AdmissionHistory, wanted.Tuning)
}

// ownedAnnotations returns the annotations that only a policy or a part gives to a protector.
func ownedAnnotations() []string {
	return []string{v1alpha1.AnnotationPolicy, v1alpha1.AnnotationPolicyRule, v1alpha1.AnnotationSourcePart, v1alpha1.AnnotationFloorReference}
}

func differsInTuning(have *v1alpha1.AdmissionHistorySpec, want *v1alpha1.AdmissionHistoryTuning) bool {
	if want == nil {
		return false
	}
	isDifferent := func(have, want *int32) bool { return want != nil && (have == nil || *have != *want) }
	return isDifferent(&have.MaxConcurrentLag, want.MaxConcurrentLag) || isDifferent(have.CompactThreshold, want.CompactThreshold) ||
		isDifferent(have.UpdateTimeoutSeconds, want.UpdateTimeoutSeconds) || isDifferent(have.AggregationRateMillis, want.AggregationRateMillis)
}

func containsAll(all, part map[string]string) bool {
	for key, value := range part {
		if got, ok := all[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// apply writes the fields that the generator owns. A uid restricts it to an update of that very object; without one it creates.
func (r *Reconciler) apply(ctx context.Context, wanted policy.Protector, uid types.UID) error {
	spec, err := ownedSpec(wanted)
	if err != nil {
		return err
	}
	object := clusters.NewApply(wanted.Object, uid)
	object.SetLabels(wanted.Object.Labels)
	object.SetAnnotations(wanted.Object.Annotations)
	object.SetFinalizers(wanted.Object.Finalizers)
	object.Object["spec"] = spec
	return r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(Name), client.ForceOwnership)
}

// correctDrift makes an existing protector match wanted. It first removes fields of other clients that exclude one of wanted: the API server
// rejects an object with both, and applying the generator's fields does not remove theirs.
func (r *Reconciler) correctDrift(ctx context.Context, protector *v1alpha1.PodProtector, wanted policy.Protector) error {
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
		if err := r.Client.Patch(ctx, protector.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(Name)); err != nil {
			return err
		}
	}
	return r.apply(ctx, wanted, protector.UID)
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
	for name, value := range map[string]string{"criterion": string(from.Criterion), "targetRemovalPolicy": string(from.TargetRemovalPolicy)} {
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

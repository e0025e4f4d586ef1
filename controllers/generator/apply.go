package generator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// applier writes what the generator owns of a protector, by server-side apply with a field manager of its own. Each write carries the version that it was
// decided on (rule 13): a leader that was paused must not write over a floor that another one has raised since. The error is then a conflict.
type applier struct{ client client.Client }

// neverStored is a version that no stored object has. An apply with it creates an object, and conflicts with one that exists.
const neverStored = "1"

// create creates a protector, and sets its UID in wanted.
func (a *applier) create(ctx context.Context, wanted policy.Protector) error {
	created, err := a.apply(ctx, &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{ResourceVersion: neverStored}}, wanted)
	if err == nil {
		wanted.Object.UID = created.GetUID()
	}
	return err
}

// apply writes the fields that the generator owns to the given version of a protector, and returns the result.
func (a *applier) apply(
	ctx context.Context, to *v1alpha1.PodProtector, wanted policy.Protector, options ...client.ApplyOption,
) (*unstructured.Unstructured, error) {
	spec, err := ownedSpec(wanted)
	if err != nil {
		return nil, err
	}
	object := clusters.NewApply(v1alpha1.GroupVersion.WithKind("PodProtector"), wanted.Object, to.UID)
	object.SetResourceVersion(to.ResourceVersion)
	object.SetLabels(wanted.Object.Labels)
	object.SetAnnotations(wanted.Object.Annotations)
	object.SetFinalizers(wanted.Object.Finalizers)
	object.Object["spec"] = spec
	options = append(options, client.FieldOwner(Name), client.ForceOwnership)
	return object, a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...)
}

// predict returns a protector as it will be when the generator has applied wanted. A field that the generator owns and that wanted does not set gets
// its default, or the value of another owner. Only the API server knows it, so predict asks for a dry run if the rule of the protector changes.
func (a *applier) predict(ctx context.Context, protector *v1alpha1.PodProtector, wanted policy.Protector) (*v1alpha1.PodProtector, error) {
	if !differs(protector, wanted) || hasSameRecord(protector, wanted) {
		return protectorAfterApply(protector, wanted), nil
	}
	// Until correctDrift has removed fields of other clients, the API server would reject their alternatives.
	trial := wanted
	trial.Object = wanted.Object.DeepCopy()
	setFloorAndCoverage(&trial.Object.Spec, &protector.Spec)
	result, err := a.apply(ctx, protector, trial, client.DryRunAll)
	if err != nil {
		return nil, fmt.Errorf("predict the PodProtector by a dry run: %w", err)
	}
	after := &v1alpha1.PodProtector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(result.Object, after); err != nil {
		return nil, fmt.Errorf("decode the result of a dry run: %w", err)
	}
	after.Status = *protector.Status.DeepCopy()
	setFloorAndCoverage(&after.Spec, &wanted.Object.Spec)
	return after, nil
}

// correctDrift makes a version of a protector match wanted. It first removes fields of other clients that exclude one of wanted: the API server
// rejects an object with both, and applying the generator's fields does not remove theirs.
func (a *applier) correctDrift(ctx context.Context, protector *v1alpha1.PodProtector, wanted policy.Protector) error {
	have, want := &protector.Spec, &wanted.Object.Spec
	foreign := map[string]bool{
		"minAvailable":   have.MinAvailable != nil && want.MinAvailable == nil,
		"maxUnavailable": have.MaxUnavailable != nil && want.MaxUnavailable == nil,
		"targetRef":      have.TargetRef != nil && want.TargetRef == nil,
	}
	if slices.Contains(slices.Collect(maps.Values(foreign)), true) {
		spec, err := ownedSpec(wanted)
		if err != nil {
			return err
		}
		// Nothing else: a merge patch of operations would remove those that a user added.
		replaced := map[string]any{"minAvailable": spec["minAvailable"], "maxUnavailable": spec["maxUnavailable"]}
		if foreign["targetRef"] {
			replaced["targetRef"], replaced["selector"] = nil, spec["selector"]
		}
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": protector.UID, "resourceVersion": protector.ResourceVersion}, "spec": replaced,
		})
		if err != nil {
			return err
		}
		protector = protector.DeepCopy()
		if err := a.client.Patch(ctx, protector, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(Name)); err != nil {
			return err
		}
	}
	_, err := a.apply(ctx, protector, wanted)
	return err
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
		"selector": from.Selector, "targetRef": from.TargetRef, "exemptPodSelector": from.ExemptPodSelector, "spread": from.Spread, "admissionHistory": wanted.Tuning,
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

// identify gives a version of a protector the labels and annotations of wanted that identify its source.
func (a *applier) identify(ctx context.Context, protector *v1alpha1.PodProtector, wanted policy.Protector) error {
	identified := protector.DeepCopy()
	metav1.SetMetaDataLabel(&identified.ObjectMeta, v1alpha1.LabelSourceKind, wanted.Object.Labels[v1alpha1.LabelSourceKind])
	for _, key := range []string{v1alpha1.AnnotationSourceAPIVersion, v1alpha1.AnnotationSourceName, v1alpha1.AnnotationSourcePart} {
		if value, ok := wanted.Object.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&identified.ObjectMeta, key, value)
		}
	}
	patch := client.MergeFromWithOptions(protector, client.MergeFromWithOptimisticLock{})
	return a.client.Patch(ctx, identified, patch, client.FieldOwner(Name))
}

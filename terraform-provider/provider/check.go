package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// advise warns of what the API accepts in an object that a plan creates or changes, and its user hardly intends.
func (k *kind) advise(w *desired, d *diag.Diagnostics) {
	spec, _ := w.object.Object["spec"].(map[string]any)
	switch {
	case k.derived != nil:
		k.adviseOnPolicy(spec, w.String(), d)
	case k.Kind.Kind == "PodProtector":
		for _, m := range policy.Mistakes(v1alpha1.KeyOnProtector, w.object.GetLabels(), w.object.GetAnnotations()) {
			at := path.Root("annotations")
			if m.IsLabel {
				at = path.Root("labels")
			}
			d.AddAttributeWarning(at.AtMapKey(m.Key), "A key has no effect", m.String())
		}
		if p := w.protector(); p != nil {
			k.adviseOnFloor(path.Empty(), p, w.String(), d)
		}
	}
}

// protector returns the PodProtector; nil if a part of its spec is not known yet.
func (w *desired) protector() *v1alpha1.PodProtector {
	for _, at := range w.unknown {
		if at[0] == "spec" {
			return nil
		}
	}
	p := &v1alpha1.PodProtector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(w.object.Object, p); err != nil {
		return nil // the rules of the kind say what is wrong
	}
	return p
}

// adviseOnPolicy warns of the floors of the protectors that a policy generates.
func (k *kind) adviseOnPolicy(spec map[string]any, name string, d *diag.Diagnostics) {
	rule := &v1alpha1.FloorRule{}
	raw, _ := spec["floor"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, rule); err != nil {
		return // the rules of the kind say what is wrong
	}
	floorOf := func(share v1alpha1.PodShare) *v1alpha1.PodProtector {
		return &v1alpha1.PodProtector{Spec: v1alpha1.PodProtectorSpec{MinAvailable: share.MinAvailable, MaxUnavailable: share.MaxUnavailable}}
	}
	k.adviseOnFloor(path.Root("floor"), floorOf(rule.PodShare), name, d)
	for i := range rule.Bands {
		k.adviseOnFloor(path.Root("floor").AtName("bands").AtListIndex(i), floorOf(rule.Bands[i].PodShare), name, d)
	}
}

// adviseOnFloor warns of a floor that protects nothing, and of one that no removal can keep. parent has its attributes.
func (k *kind) adviseOnFloor(parent path.Path, p *v1alpha1.PodProtector, name string, d *diag.Diagnostics) {
	attribute, given := "min_available", p.Spec.MinAvailable
	none, all := "0", "100%"
	if given == nil {
		attribute, given = "max_unavailable", p.Spec.MaxUnavailable
		none, all = all, none
	}
	if given == nil {
		return
	}
	at := path.Root(attribute)
	if !parent.Equal(path.Empty()) {
		at = parent.AtName(attribute)
	}
	value := given.String()
	if value == "0%" {
		value = "0"
	}
	expected := -1
	if p.Spec.ExpectedReplicas != nil {
		expected = int(*p.Spec.ExpectedReplicas)
	}
	floor, isKnown := quota.Floor(p)
	switch {
	case value == none || isKnown && floor == 0:
		d.AddAttributeWarning(at, "The floor protects nothing", fmt.Sprintf("%s: with %s = %s no pod must stay available.", k.of(name), attribute, given))
	case expected >= 0 && isKnown && floor > expected:
		d.AddAttributeWarning(at, "The floor is above the number of expected pods", fmt.Sprintf("%s: %d pods must stay available, but expected_replicas is %d. "+
			"If no more are available, every removal is denied, also by drains and rollouts.", k.of(name), floor, expected))
	case value == all || expected >= 0 && isKnown && floor == expected:
		d.AddAttributeWarning(at, "The floor allows no removal", fmt.Sprintf("%s: all expected pods must stay available, so a removal is denied unless more are available: "+
			"a drain waits, and a rollout as well if it adds no pod first.", k.of(name)))
	}
}

// checkCounted adds an error if the aggregation selector does not select all protected pods: Breakwater then ignores it.
func (k *kind) checkCounted(w *desired, d *diag.Diagnostics) {
	if k.Kind.Kind != "PodProtector" {
		return
	}
	p := w.protector()
	if p == nil || p.Spec.AggregationSelector == nil || p.Spec.Selector == nil {
		return
	}
	if _, err := selectors.CountedCoverageOf(&p.Spec, nil); err != nil {
		at := path.Root("aggregation_selector")
		errorAt(d, at, "Invalid "+k.Kind.Kind, k.message(at, err.Error()))
	}
}

// check validates an object as the API server would. If before is set, check also applies the rules for
// updates.
func (k *kind) check(ctx context.Context, now, before *desired, d *diag.Diagnostics) {
	rules, err := k.rules()
	if err != nil {
		d.AddError("The provider is broken", fmt.Sprintf("The rules of %s cannot be compiled: %v", k.Kind.Kind, err))
		return
	}
	var old map[string]any
	if before != nil {
		old = before.object.Object
	}
	for _, number := range shape.NotWhole(shape.Path{"spec"}, now.object.Object["spec"]) {
		at := k.attribute(number)
		errorAt(d, at, "Invalid "+k.Kind.Kind, at.String()+": must be a whole number from 0 to 2147483647.")
	}
	if d.HasError() {
		return
	}
	k.checkCounted(now, d)
	broken := rules.Check(ctx, now.object.Object, old, now.unknown)
	broken = append(broken, metav1validation.ValidateLabels(now.object.GetLabels(), field.NewPath("metadata", "labels"))...)
	broken = append(broken, apivalidation.ValidateAnnotations(now.object.GetAnnotations(), field.NewPath("metadata", "annotations"))...)
	for _, e := range broken {
		at := k.attributePath(e.Field)
		if at.Equal(path.Root("name")) || at.Equal(path.Root("namespace")) {
			continue // their attributes have validators, which distinguish a missing value from an unknown one
		}
		errorAt(d, at, fmt.Sprintf("Invalid %s", k.Kind.Kind), k.message(at, e.ErrorBody()))
	}
}

package provider

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// advise warns of what the API accepts in an object that a plan creates or changes, and its user hardly intends.
func (k *kind) advise(w *desired, d *diag.Diagnostics) {
	if k.Kind.Kind != "PodProtector" {
		return
	}
	for _, m := range policy.Mistakes(v1alpha1.KeyOnProtector, w.object.GetLabels(), w.object.GetAnnotations()) {
		at := path.Root("annotations")
		if m.IsLabel {
			at = path.Root("labels")
		}
		d.AddAttributeWarning(at.AtMapKey(m.Key), "A key has no effect", m.String())
	}
	if p := w.protector(); p != nil {
		k.adviseOnFloor(p, w.String(), d)
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

// adviseOnFloor warns of a floor that protects nothing, and of one that no removal can ever keep.
func (k *kind) adviseOnFloor(p *v1alpha1.PodProtector, name string, d *diag.Diagnostics) {
	at, given := path.Root("min_available"), p.Spec.MinAvailable
	if given == nil {
		at, given = path.Root("max_unavailable"), p.Spec.MaxUnavailable
	}
	if given == nil {
		return
	}
	// 100 is a number of pods for which percentages are exact.
	ofHundred := p.DeepCopy()
	if expected := int32(100); p.Spec.ExpectedReplicas == nil {
		ofHundred.Spec.ExpectedReplicas = &expected
	}
	floor, _ := quota.Floor(ofHundred)
	expected := int(*ofHundred.Spec.ExpectedReplicas)
	isShare := p.Spec.MinAvailable == nil || given.StrVal != ""
	switch {
	case floor == 0:
		d.AddAttributeWarning(at, "The floor protects nothing", fmt.Sprintf("%s: with %s = %s no pod must stay available.", k.of(name), at, given))
	case p.Spec.ExpectedReplicas != nil && floor > expected:
		d.AddAttributeWarning(at, "The floor is above the number of expected pods", fmt.Sprintf("%s: %d pods must stay available, but expected_replicas is %d. "+
			"If no more are available, every removal is denied, also by drains and rollouts.", k.of(name), floor, expected))
	case floor == expected && (isShare || p.Spec.ExpectedReplicas != nil):
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

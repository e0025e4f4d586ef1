package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// applyObject applies YAML, server-side, as one manager and returns the whole object that results.
func applyObject(t *testing.T, c client.Client, name, namespace, manager, text string, options ...client.ApplyOption) map[string]any {
	t.Helper()
	u := object(t, "PodProtector", namespace, text)
	u.SetGenerateName("")
	u.SetName(name)
	options = append(options, client.FieldOwner(manager))
	if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), options...); err != nil {
		t.Fatalf("apply as %s: %v", manager, err)
	}
	return u.Object
}

// applyStatus is the same for the status.
func applyStatus(t *testing.T, c client.Client, p *unstructured.Unstructured, manager, text string) map[string]any {
	t.Helper()
	u := object(t, "PodProtector", p.GetNamespace(), text)
	u.SetGenerateName("")
	u.SetName(p.GetName())
	if err := c.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager)); err != nil {
		t.Fatalf("apply the status as %s: %v", manager, err)
	}
	return u.Object
}

func TestApplyReplacesTheSelector(t *testing.T) {
	c := testplane.Client(t)
	namespace := created(t, c).GetNamespace()
	applyObject(t, c, "atomic", namespace, "one", `{spec: {minAvailable: 1, selector: {matchLabels: {app: web, tier: front}}}}`)

	// Merged, the selector would have both labels and choose fewer pods than either manager asked for.
	other := object(t, "PodProtector", namespace, `{metadata: {name: atomic}, spec: {selector: {matchLabels: {app: shop}}}}`)
	err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(other), client.FieldOwner("two"))
	wantErrorContaining(t, err, `conflict with "one": .spec.selector`)

	got := applyObject(t, c, "atomic", namespace, "two", `{spec: {selector: {matchLabels: {app: shop}}}}`, client.ForceOwnership)
	want := map[string]any{"matchLabels": map[string]any{"app": "shop"}}
	selector, _, _ := unstructured.NestedMap(got, "spec", "selector")
	if diff := cmp.Diff(want, selector); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}
}

func TestSpreadSelectorIsAtomic(t *testing.T) {
	c, namespace := testplane.Client(t), testplane.Namespace(t)
	apply := func(manager, label string) error {
		policy := object(t, "PodSchedulingPolicy", namespace, `{metadata: {name: atomic}, spec: {topologySpreadConstraints: [
			{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, maxSkew: 1, labelSelector: {matchLabels: {`+label+`: web}}}]}}`)
		policy.SetGenerateName("")
		return c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(policy), client.FieldOwner(manager))
	}
	if err := apply("one", "app"); err != nil {
		t.Fatal(err)
	}
	wantErrorContaining(t, apply("two", "tier"), `conflict with "one"`)
}

func TestConditionsOfTwoManagersMergeByType(t *testing.T) {
	c := testplane.Client(t)
	p := created(t, c)
	condition := func(kind, status string) string {
		return `{status: {conditions: [{type: ` + kind + `, status: "` + status +
			`", reason: R, message: "", lastTransitionTime: "2026-11-21T12:00:00Z"}]}}`
	}
	decided := p.DeepCopy()
	if err := yaml.Unmarshal([]byte(`{status: `+cellStatus("a", "")+`}`), &decided.Object); err != nil {
		t.Fatal(err)
	}
	if err := c.Status().Update(t.Context(), decided, client.FieldOwner("webhook")); err != nil {
		t.Fatal(err)
	}
	applyStatus(t, c, p, "aggregator", condition("Ready", "False"))
	applyStatus(t, c, p, "generator", condition("TargetResolved", "True"))
	got := applyStatus(t, c, p, "aggregator", condition("Ready", "True"))

	found := map[string]string{}
	conditions, _, _ := unstructured.NestedSlice(got, "status", "conditions")
	for _, each := range conditions {
		condition := each.(map[string]any)
		found[condition["type"].(string)] = condition["status"].(string)
	}
	if diff := cmp.Diff(map[string]string{"Ready": "True", "TargetResolved": "True"}, found); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if cells, _, _ := unstructured.NestedSlice(got, "status", "cells"); len(cells) != 1 {
		t.Errorf("%d cells, want the existing one, since its reservations would be lost", len(cells))
	}
}

func TestCellsOfTwoManagersMergeByCellID(t *testing.T) {
	c := testplane.Client(t)
	p := created(t, c)
	applyStatus(t, c, p, "a", `{status: `+cellStatus("a", "")+`}`)
	got := applyStatus(t, c, p, "b", `{status: `+cellStatus("b", "")+`}`)
	if cells, _, _ := unstructured.NestedSlice(got, "status", "cells"); len(cells) != 2 {
		t.Errorf("%d cells, want those of both managers: %v", len(cells), cells)
	}
}

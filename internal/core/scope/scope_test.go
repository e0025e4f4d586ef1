package scope_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
)

var (
	namespaces = []string{"shop", "bank", "zoo"}
	keys       = []string{"cell", "tier"}
	values     = []string{"a", "b", "c"}
)

// drawSpec draws a spec, possibly one that the CRD rejects.
func drawSpec(t *rapid.T) *v1alpha1.CellSpec {
	spec := &v1alpha1.CellSpec{}
	if rapid.Bool().Draw(t, "of namespaces") {
		spec.Namespaces = rapid.SliceOfNDistinct(rapid.SampledFrom(namespaces), 1, 3, rapid.ID).Draw(t, "namespaces")
	}
	if rapid.Bool().Draw(t, "of labels") {
		spec.PodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{}}
		for _, key := range keys {
			switch rapid.SampledFrom([]string{"", "=", "In", "NotIn", "Exists", "DoesNotExist"}).Draw(t, key) {
			case "=":
				spec.PodSelector.MatchLabels[key] = rapid.SampledFrom(values).Draw(t, "value")
			case "In", "NotIn":
				spec.PodSelector.MatchExpressions = append(spec.PodSelector.MatchExpressions, v1alpha1.PodSelectorRequirement{
					Key: key, Operator: rapid.SampledFrom([]metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn}).Draw(t, "operator"),
					Values: rapid.SliceOfN(rapid.SampledFrom(values), 1, 3).Draw(t, "values"),
				})
			case "Exists", "DoesNotExist":
				spec.PodSelector.MatchExpressions = append(spec.PodSelector.MatchExpressions, v1alpha1.PodSelectorRequirement{
					Key: key, Operator: rapid.SampledFrom([]metav1.LabelSelectorOperator{metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist}).Draw(t, "operator"),
				})
			}
		}
	}
	return spec
}

// pods are all distinguishable pods: in each namespace that a spec can name and one other, with each value, another value, or no
// label.
func pods() (all []struct {
	namespace string
	labels    map[string]string
}) {
	for _, namespace := range append([]string{"other"}, namespaces...) {
		for _, cell := range append([]string{"", "z"}, values...) {
			for _, tier := range append([]string{"", "z"}, values...) {
				labels := map[string]string{}
				if cell != "" {
					labels["cell"] = cell
				}
				if tier != "" {
					labels["tier"] = tier
				}
				all = append(all, struct {
					namespace string
					labels    map[string]string
				}{namespace, labels})
			}
		}
	}
	return all
}

// has is a slow, simple implementation of Scope.Has.
func has(t *rapid.T, spec *v1alpha1.CellSpec, namespace string, labels map[string]string) bool {
	if len(spec.Namespaces) > 0 {
		found := false
		for _, n := range spec.Namespaces {
			found = found || n == namespace
		}
		if !found {
			return false
		}
	}
	if spec.PodSelector == nil {
		return true
	}
	selector := &metav1.LabelSelector{MatchLabels: spec.PodSelector.MatchLabels}
	for _, e := range spec.PodSelector.MatchExpressions {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: e.Key, Operator: e.Operator, Values: e.Values})
	}
	kubernetes, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return kubernetes.Matches(set(labels))
}

type set map[string]string

func (s set) Has(key string) bool              { _, ok := s[key]; return ok }
func (s set) Get(key string) string            { return s[key] }
func (s set) Lookup(key string) (string, bool) { v, ok := s[key]; return v, ok }

func TestScopeOfSpec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSpec(t), drawSpec(t)
		one, err := scope.Of(a)
		if err != nil {
			t.Fatal(err)
		}
		other, err := scope.Of(b)
		if err != nil {
			t.Fatal(err)
		}
		overlap := false
		for _, pod := range pods() {
			mine, theirs := has(t, a, pod.namespace, pod.labels), has(t, b, pod.namespace, pod.labels)
			if got := one.Has(pod.namespace, pod.labels); got != mine {
				t.Fatalf("Has(%s, %v) = %v, want %v", pod.namespace, pod.labels, got, mine)
			}
			if mine && !one.HasNamespace(pod.namespace) {
				t.Fatalf("has a pod of namespace %s, want HasNamespace() = true", pod.namespace)
			}
			overlap = overlap || mine && theirs
		}
		if got := one.Overlaps(other); got != overlap || other.Overlaps(one) != got {
			t.Fatalf("Overlaps() = %v, want %v", got, overlap)
		}
		if one.HasAllPods() != (len(a.Namespaces) == 0 && a.PodSelector == nil) {
			t.Fatal("HasAllPods() does not match the spec")
		}
	})
}

func TestScopeOfMalformedSelectorIsEmpty(t *testing.T) {
	s, err := scope.Of(&v1alpha1.CellSpec{PodSelector: &v1alpha1.PodSelector{
		MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: "a", Operator: "Near"}},
	}})
	if err == nil || s.Has("shop", map[string]string{"a": "b"}) {
		t.Errorf("Of() = %+v, %v, want an empty scope and an error", s, fmt.Sprint(err))
	}
}

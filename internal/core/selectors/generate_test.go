package selectors_test

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// There are few keys and values, so that selectors overlap, contradict and repeat each other.

func anyKey() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"app", "env", "team", "tier", "example.com/zone"})
}

func anyValue() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "a", "b", "ab", "a-value-of-33-bytes-which-is-long", "a-value-of-33-bytes-which-is-lost"})
}

func anyPod() *rapid.Generator[map[string]string] {
	return rapid.MapOfN(anyKey(), anyValue(), 0, 5)
}

func anySelector() *rapid.Generator[v1alpha1.PodSelector] {
	return selectorOf(anyKey(), anyValue(), 4)
}

func smallSelector() *rapid.Generator[v1alpha1.PodSelector] {
	return selectorOf(rapid.SampledFrom([]string{"x", "y"}), rapid.SampledFrom([]string{"a", "b"}), 3)
}

// everyPod returns all pods that selectors of smallSelector could distinguish.
func everyPod() []map[string]string {
	var pods []map[string]string
	for _, x := range []string{"-", "a", "b", "other"} {
		for _, y := range []string{"-", "a", "b", "other"} {
			pod := map[string]string{}
			if x != "-" {
				pod["x"] = x
			}
			if y != "-" {
				pod["y"] = y
			}
			pods = append(pods, pod)
		}
	}
	return pods
}

func selectorOf(keys, values *rapid.Generator[string], most int) *rapid.Generator[v1alpha1.PodSelector] {
	return rapid.Custom(func(t *rapid.T) v1alpha1.PodSelector {
		s := v1alpha1.PodSelector{MatchLabels: rapid.MapOfN(keys, values, 0, 2).Draw(t, "matchLabels")}
		for i := range rapid.IntRange(0, most).Draw(t, "expressions") {
			r := v1alpha1.PodSelectorRequirement{
				Key: keys.Draw(t, fmt.Sprintf("key %d", i)),
				Operator: rapid.SampledFrom([]metav1.LabelSelectorOperator{
					metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
				}).Draw(t, "operator"),
			}
			if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
				r.Values = rapid.SliceOfN(values, 1, 5).Draw(t, "values")
			}
			s.MatchExpressions = append(s.MatchExpressions, r)
		}
		return s
	})
}

func compileAny(t *rapid.T, s v1alpha1.PodSelector) *selectors.Selector {
	compiled, err := selectors.Compile(s)
	if err != nil {
		t.Fatalf("Compile(%+v) = %v", s, err)
	}
	return compiled
}

// kubernetes compiles the selector as Kubernetes does.
func kubernetes(t *rapid.T, s v1alpha1.PodSelector) labels.Selector {
	compiled, err := metav1.LabelSelectorAsSelector(labelSelector(s))
	if err != nil {
		t.Fatalf("Kubernetes rejects %+v: %v", s, err)
	}
	return compiled
}

func labelSelector(s v1alpha1.PodSelector) *metav1.LabelSelector {
	converted := &metav1.LabelSelector{MatchLabels: s.MatchLabels}
	for _, e := range s.MatchExpressions {
		converted.MatchExpressions = append(converted.MatchExpressions, metav1.LabelSelectorRequirement(e))
	}
	return converted
}

package selectors_test

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// FuzzSelector parses a selector and a pod's labels from JSON, and requires that Compile, Matches and Query agree with Kubernetes.
// testdata/fuzz has selectors that broke other implementations.
func FuzzSelector(f *testing.F) {
	f.Add(`{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"tier","operator":"NotIn","values":["fe"]}]}`, `{"app":"web"}`)
	f.Fuzz(func(t *testing.T, selector, pod string) {
		var written v1alpha1.PodSelector
		var podLabels map[string]string
		if json.Unmarshal([]byte(selector), &written) != nil || json.Unmarshal([]byte(pod), &podLabels) != nil {
			t.Skip("not the JSON of a selector and labels")
		}
		oracle, denied := metav1.LabelSelectorAsSelector(labelSelector(written))
		s, err := selectors.Compile(written)
		if (err != nil) != (denied != nil) {
			t.Fatalf("Compile(%s) = %v, Kubernetes says %v", selector, err, denied)
		}
		if err != nil {
			return
		}

		want := oracle.Matches(labels.Set(podLabels))
		if got := s.Matches(podLabels); got != want {
			t.Errorf("%s matches %s: %v, Kubernetes says %v", selector, pod, got, want)
		}
		x := selectors.New[int]()
		for id := range 40 { // more than a node holds
			x.Set(id, namespace, s)
		}
		if got := len(x.Query(namespace, podLabels, nil)); got != 40 && want || got != 0 && !want {
			t.Errorf("%s: %d of 40 are found for %s, Kubernetes says %v", selector, got, pod, want)
		}
	})
}

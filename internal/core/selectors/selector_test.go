package selectors_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

func in(key string, values ...string) v1alpha1.PodSelectorRequirement {
	return v1alpha1.PodSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}
}

func notIn(key string, values ...string) v1alpha1.PodSelectorRequirement {
	return v1alpha1.PodSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: values}
}

func exists(key string) v1alpha1.PodSelectorRequirement {
	return v1alpha1.PodSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpExists}
}

func doesNotExist(key string) v1alpha1.PodSelectorRequirement {
	return v1alpha1.PodSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist}
}

func expressions(e ...v1alpha1.PodSelectorRequirement) v1alpha1.PodSelector {
	return v1alpha1.PodSelector{MatchExpressions: e}
}

func compile(tb testing.TB, s v1alpha1.PodSelector) *selectors.Selector {
	tb.Helper()
	compiled, err := selectors.Compile(s)
	if err != nil {
		tb.Fatalf("Compile(%+v) = %v", s, err)
	}
	return compiled
}

func TestMatches(t *testing.T) {
	appWeb := map[string]string{"app": "web"}
	for claim, tc := range map[string]struct {
		selector v1alpha1.PodSelector
		matches  []map[string]string
		misses   []map[string]string
	}{
		"an empty selector matches every pod": {
			matches: []map[string]string{nil, {}, {"app": "web"}},
		},
		"all of matchLabels must hold": {
			selector: v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web", "tier": "fe"}},
			matches:  []map[string]string{{"app": "web", "tier": "fe", "x": "y"}},
			misses:   []map[string]string{nil, {"app": "web"}, {"app": "web", "tier": "be"}},
		},
		"an empty value is a value, a missing label is not": {
			selector: v1alpha1.PodSelector{MatchLabels: map[string]string{"app": ""}},
			matches:  []map[string]string{{"app": ""}},
			misses:   []map[string]string{nil, {"app": "web"}},
		},
		"In with a repeated value equals In with the value once": {
			selector: expressions(in("app", "web", "web")),
			matches:  []map[string]string{appWeb},
			misses:   []map[string]string{nil, {"app": "api"}},
		},
		"both requirements of one key must hold": {
			selector: expressions(in("app", "web", "api"), in("app", "web", "db")),
			matches:  []map[string]string{appWeb},
			misses:   []map[string]string{{"app": "api"}, {"app": "db"}, nil},
		},
		"a key in matchLabels and in matchExpressions must hold in both": {
			selector: v1alpha1.PodSelector{
				MatchLabels:      map[string]string{"app": "web"},
				MatchExpressions: []v1alpha1.PodSelectorRequirement{in("app", "web", "api"), exists("app")},
			},
			matches: []map[string]string{appWeb},
			misses:  []map[string]string{{"app": "api"}, nil},
		},
		"NotIn matches a pod without the label": {
			selector: expressions(notIn("app", "web")),
			matches:  []map[string]string{nil, {"app": "api"}, {"app": ""}},
			misses:   []map[string]string{appWeb},
		},
		"NotIn and Exists together do not": {
			selector: expressions(notIn("app", "web"), exists("app")),
			matches:  []map[string]string{{"app": "api"}},
			misses:   []map[string]string{nil, appWeb},
		},
		"DoesNotExist matches only a pod without the label": {
			selector: expressions(doesNotExist("app")),
			matches:  []map[string]string{nil, {"tier": "fe"}},
			misses:   []map[string]string{appWeb, {"app": ""}},
		},
		"a contradiction matches nothing": {
			selector: expressions(in("app", "web"), notIn("app", "web")),
			misses:   []map[string]string{nil, appWeb, {"app": "api"}},
		},
		"Exists and DoesNotExist of one key match nothing": {
			selector: expressions(exists("app"), doesNotExist("app")),
			misses:   []map[string]string{nil, appWeb},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			s := compile(t, tc.selector)
			for _, pod := range tc.matches {
				if !s.Matches(pod) {
					t.Errorf("%q does not match %v, want a match", s.Key(), pod)
				}
			}
			for _, pod := range tc.misses {
				if s.Matches(pod) {
					t.Errorf("%q matches %v, want no match", s.Key(), pod)
				}
			}
		})
	}
}

func TestKeyIsEqualForEqualMeaning(t *testing.T) {
	for claim, same := range map[string][]v1alpha1.PodSelector{
		"order and repetition do not count": {
			expressions(in("a", "2", "1", "1"), exists("b")), expressions(exists("b"), in("a", "1", "2")),
		},
		"matchLabels is In with one value": {
			{MatchLabels: map[string]string{"a": "1"}}, expressions(in("a", "1")), expressions(in("a", "1", "2"), notIn("a", "2")),
		},
		"Exists is redundant with In":                {expressions(in("a", "1")), expressions(exists("a"), in("a", "1"))},
		"NotIn is redundant with DoesNotExist":       {expressions(doesNotExist("a")), expressions(notIn("a", "1"), doesNotExist("a"))},
		"several NotIn are one":                      {expressions(notIn("a", "1"), notIn("a", "2")), expressions(notIn("a", "2", "1"))},
		"selectors that match nothing are equal":     {expressions(in("a", "1"), in("a", "2"), exists("b")), expressions(exists("c"), doesNotExist("c"))},
		"nil and empty lists and maps mean the same": {{}, {MatchLabels: map[string]string{}, MatchExpressions: []v1alpha1.PodSelectorRequirement{}}},
	} {
		t.Run(claim, func(t *testing.T) {
			want := compile(t, same[0]).Key()
			for _, s := range same[1:] {
				if got := compile(t, s).Key(); got != want {
					t.Errorf("Key() of %+[3]v = %[1]q, want %[2]q", got, want, s)
				}
			}
		})
	}
	if got, want := selectors.Everything().Key(), compile(t, v1alpha1.PodSelector{}).Key(); got != want {
		t.Errorf("Everything().Key() = %q, want %q", got, want)
	}
}

func TestCompileErrors(t *testing.T) {
	for claim, tc := range map[string]struct {
		selector v1alpha1.PodSelector
		want     []string
	}{
		"In without values":    {expressions(exists("a"), in("app")), []string{"matchExpressions[1].values", "at least one value"}},
		"NotIn without values": {expressions(notIn("app")), []string{"matchExpressions[0].values", "at least one value"}},
		"Exists with values": {
			expressions(v1alpha1.PodSelectorRequirement{Key: "app", Operator: metav1.LabelSelectorOpExists, Values: []string{"web"}}),
			[]string{"matchExpressions[0].values", "take no values"},
		},
		"an unknown operator": {
			expressions(v1alpha1.PodSelectorRequirement{Key: "app", Operator: "Gt", Values: []string{"1"}}),
			[]string{"matchExpressions[0].operator", `"Gt"`, `"DoesNotExist"`},
		},
		"no operator":                  {expressions(v1alpha1.PodSelectorRequirement{Key: "app"}), []string{"matchExpressions[0].operator"}},
		"no key":                       {expressions(exists("")), []string{"matchExpressions[0].key"}},
		"an invalid label key":         {expressions(exists("a b")), []string{"matchExpressions[0].key", `"a b"`}},
		"an invalid label value":       {expressions(in("app", "ok", "not ok")), []string{"matchExpressions[0].values[1]", `"not ok"`}},
		"a value that is too long":     {expressions(in("app", strings.Repeat("x", 64))), []string{"matchExpressions[0].values[0]", "63"}},
		"a key of matchLabels":         {v1alpha1.PodSelector{MatchLabels: map[string]string{"/x": "y"}}, []string{"matchLabels", `"/x"`}},
		"a value of matchLabels":       {v1alpha1.PodSelector{MatchLabels: map[string]string{"x": "-"}}, []string{"matchLabels[x]", `"-"`}},
		"several errors, all reported": {expressions(in("a"), exists("")), []string{"matchExpressions[0].values", "matchExpressions[1].key"}},
	} {
		t.Run(claim, func(t *testing.T) {
			s, err := selectors.Compile(tc.selector)
			if err == nil {
				t.Fatalf("Compile() = %q, want an error", s.Key())
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error = %q, want it to contain %q", err, want)
				}
			}
		})
	}
}

// TestMatchesLikeKubernetes uses k8s.io/apimachinery as the oracle, for the selector itself and for its Key.
func TestMatchesLikeKubernetes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		written := anySelector().Draw(t, "selector")
		s, err := selectors.Compile(written)
		if err != nil {
			t.Fatalf("Compile() = %v", err)
		}
		oracle := kubernetes(t, written)
		for range 10 {
			pod := anyPod().Draw(t, "pod")
			if got, want := s.Matches(pod), oracle.Matches(labels.Set(pod)); got != want {
				t.Fatalf("%q.Matches(%v) = %v, want %v as in Kubernetes", s.Key(), pod, got, want)
			}
		}
		if !s.CanMatch() {
			return // Kubernetes has no syntax for it
		}
		again, err := labels.Parse(s.Key())
		if err != nil {
			t.Fatalf("Kubernetes cannot parse Key() %q: %v", s.Key(), err)
		}
		pod := anyPod().Draw(t, "pod")
		if got, want := again.Matches(labels.Set(pod)), oracle.Matches(labels.Set(pod)); got != want {
			t.Fatalf("%v: key %q matches = %v, selector matches = %v", pod, s.Key(), got, want)
		}
	})
}

// TestKeyDiffersForDifferentMeaning compares the keys of two selectors with their answers for every possible pod, given the labels that they
// may name and one other value.
func TestKeyDiffersForDifferentMeaning(t *testing.T) {
	pods := everyPod()
	rapid.Check(t, func(t *rapid.T) {
		a := compileAny(t, smallSelector().Draw(t, "a"))
		b := compileAny(t, smallSelector().Draw(t, "b"))
		same := true
		for _, pod := range pods {
			same = same && a.Matches(pod) == b.Matches(pod)
		}
		if (a.Key() == b.Key()) != same {
			t.Fatalf("keys %q and %q, equal meaning = %v", a.Key(), b.Key(), same)
		}
	})
}

package selectors_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

func TestCoverage(t *testing.T) {
	web, canary := map[string]string{"app": "web"}, map[string]string{"app": "web", "track": "canary"}
	for claim, c := range map[string]struct {
		exempt         *v1alpha1.PodSelector
		covers, misses []map[string]string
	}{
		"all pods that the selector selects": {nil, []map[string]string{web, canary}, []map[string]string{nil}},
		"not the exempt pods":                {&v1alpha1.PodSelector{MatchLabels: map[string]string{"track": "canary"}}, []map[string]string{web}, []map[string]string{canary, nil}},
		"no pods when all are exempt":        {&v1alpha1.PodSelector{}, nil, []map[string]string{web, canary, nil}},
		"exempt pods need not be selected":   {&v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "api"}}, []map[string]string{web, canary}, []map[string]string{{"app": "api"}}},
	} {
		t.Run(claim, func(t *testing.T) {
			spec := &v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{MatchLabels: web}, ExemptPodSelector: c.exempt}
			coverage, err := selectors.CoverageOf(spec, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, pod := range c.covers {
				if !coverage.Covers(pod) {
					t.Errorf("Covers(%v) = false, want true", pod)
				}
			}
			for _, pod := range c.misses {
				if coverage.Covers(pod) {
					t.Errorf("Covers(%v) = true, want false", pod)
				}
			}
		})
	}
}

// A malformed coverage must not leave a pod unprotected.
func TestMalformedCoverageCoversMorePods(t *testing.T) {
	wrong := expressions(v1alpha1.PodSelectorRequirement{Key: "a", Operator: "Gt"})
	for claim, c := range map[string]struct {
		spec v1alpha1.PodProtectorSpec
		says string
		miss map[string]string
	}{
		"a malformed selector selects all": {v1alpha1.PodProtectorSpec{Selector: &wrong}, "spec.selector", nil},
		"a malformed exempt selector exempts no pod": {v1alpha1.PodProtectorSpec{
			Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"a": "b"}}, ExemptPodSelector: &wrong,
		}, "spec.exemptPodSelector", map[string]string{"a": "c"}},
	} {
		t.Run(claim, func(t *testing.T) {
			coverage, err := selectors.CoverageOf(&c.spec, nil)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error = %v, want it to contain %q", err, c.says)
			}
			if !coverage.Covers(map[string]string{"a": "b"}) || c.miss != nil && coverage.Covers(c.miss) {
				t.Errorf("coverage = %v, want more pods", coverage)
			}
		})
	}
}

func TestCoverageEqual(t *testing.T) {
	of := func(value string, exempt ...string) selectors.Coverage {
		spec := &v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": value}}}
		if len(exempt) > 0 {
			spec.ExemptPodSelector = &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{in("track", exempt...)}}
		}
		coverage, err := selectors.CoverageOf(spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		return coverage
	}
	for claim, c := range map[string]struct {
		a, b selectors.Coverage
		want bool
	}{
		"the same selector":             {of("web"), of("web"), true},
		"another selector":              {of("web"), of("api"), false},
		"an additional exemption":       {of("web"), of("web", "a"), false},
		"the same exemption, reordered": {of("web", "a", "b"), of("web", "b", "a"), true},
		"another exemption":             {of("web", "a"), of("web", "b"), false},
	} {
		t.Run(claim, func(t *testing.T) {
			if c.a.Equal(c.b) != c.want || c.b.Equal(c.a) != c.want {
				t.Errorf("Equal() = %v and %v, want %v", c.a.Equal(c.b), c.b.Equal(c.a), c.want)
			}
		})
	}
}

// The test checks all pods that the selectors can distinguish.
func TestCoverageOverlaps(t *testing.T) {
	anyCoverage := rapid.Custom(func(t *rapid.T) selectors.Coverage {
		spec := &v1alpha1.PodProtectorSpec{Selector: new(smallSelector().Draw(t, "selector"))}
		if rapid.Bool().Draw(t, "has exempt pods") {
			exempt := smallSelector().Draw(t, "exempt")
			spec.ExemptPodSelector = &exempt
		}
		coverage, err := selectors.CoverageOf(spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		return coverage
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyCoverage.Draw(t, "a"), anyCoverage.Draw(t, "b")
		overlap := false
		for _, pod := range everyPod() {
			overlap = overlap || a.Covers(pod) && b.Covers(pod)
		}
		if a.Overlaps(b) != overlap || b.Overlaps(a) != overlap {
			t.Fatalf("Overlaps() of %+v and %+v = %v and %v, want %v", a, b, a.Overlaps(b), b.Overlaps(a), overlap)
		}
	})
}

func TestCountedCoverageOf(t *testing.T) {
	web, canary, other := map[string]string{"app": "web"}, map[string]string{"app": "web", "track": "canary"}, map[string]string{"app": "api"}
	apps := func(values ...string) *v1alpha1.PodSelector {
		s := expressions(in("app", values...))
		return &s
	}
	for claim, c := range map[string]struct {
		counted        *v1alpha1.PodSelector
		covers, misses []map[string]string
		fails          string
	}{
		"the protected pods without an aggregationSelector":       {nil, []map[string]string{web}, []map[string]string{canary, other}, ""},
		"more than the protected pods":                            {apps("web", "api"), []map[string]string{web, other}, []map[string]string{canary, nil}, ""},
		"all pods but the exempt ones":                            {&v1alpha1.PodSelector{}, []map[string]string{web, other, nil}, []map[string]string{canary}, ""},
		"an error for fewer pods than the protected ones":         {apps("api"), []map[string]string{web}, []map[string]string{other}, "does not select all pods"},
		"the protected pods with a malformed aggregationSelector": {apps(), []map[string]string{web}, []map[string]string{other}, "spec.aggregationSelector"},
	} {
		t.Run(claim, func(t *testing.T) {
			got, err := selectors.CountedCoverageOf(&v1alpha1.PodProtectorSpec{
				Selector: &v1alpha1.PodSelector{MatchLabels: web}, AggregationSelector: c.counted,
				ExemptPodSelector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"track": "canary"}},
			}, nil)
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Fatalf("error = %v, want it to contain %q", err, c.fails)
			}
			for _, pod := range c.covers {
				if !got.Covers(pod) {
					t.Errorf("%v is not counted, want it counted", pod)
				}
			}
			for _, pod := range c.misses {
				if got.Covers(pod) {
					t.Errorf("%v is counted, want it not counted", pod)
				}
			}
		})
	}
}

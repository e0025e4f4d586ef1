package selectors_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestOverlaps(t *testing.T) {
	matchLabels := func(pairs ...string) v1alpha1.PodSelector {
		s := v1alpha1.PodSelector{MatchLabels: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			s.MatchLabels[pairs[i]] = pairs[i+1]
		}
		return s
	}
	for claim, c := range map[string]struct {
		a, b v1alpha1.PodSelector
		want bool
	}{
		"the narrower is part of the wider":    {matchLabels("app", "web"), matchLabels("app", "web", "tier", "fe"), true},
		"two values of one label":              {matchLabels("app", "web"), matchLabels("app", "api"), false},
		"unrelated labels":                     {matchLabels("app", "web"), matchLabels("tier", "fe"), true},
		"what NotIn leaves of In":              {expressions(notIn("tier", "a"), in("tier", "a", "b")), matchLabels("tier", "a"), false},
		"the value that NotIn leaves of In":    {expressions(notIn("tier", "a"), in("tier", "a", "b")), matchLabels("tier", "b"), true},
		"a label that exists and does not":     {expressions(exists("app")), expressions(doesNotExist("app")), false},
		"NotIn matches pods without the label": {expressions(notIn("app", "web")), expressions(doesNotExist("app")), true},
		"everything and something":             {v1alpha1.PodSelector{}, matchLabels("app", "web"), true},
		"everything and nothing":               {v1alpha1.PodSelector{}, expressions(exists("app"), doesNotExist("app")), false},
	} {
		t.Run(claim, func(t *testing.T) {
			a, b := compile(t, c.a), compile(t, c.b)
			if a.Overlaps(b) != c.want || b.Overlaps(a) != c.want {
				t.Errorf("Overlaps() of %q and %q = %v, %v, want %v", a.Key(), b.Key(), a.Overlaps(b), b.Overlaps(a), c.want)
			}
		})
	}
}

// The result from the selectors alone must equal that of a check of all pods that the selectors can distinguish.
func TestCompareMatchesEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := compileAny(t, smallSelector().Draw(t, "a")), compileAny(t, smallSelector().Draw(t, "b"))
		overlap, includes := false, true
		for _, pod := range everyPod() {
			overlap = overlap || a.Matches(pod) && b.Matches(pod)
			includes = includes && (a.Matches(pod) || !b.Matches(pod))
			if both := a.Intersect(b).Matches(pod); both != (a.Matches(pod) && b.Matches(pod)) {
				t.Fatalf("Intersect() of %q and %q: matches %v = %v, want the opposite", a.Key(), b.Key(), pod, both)
			}
		}
		if a.Overlaps(b) != overlap {
			t.Fatalf("%q.Overlaps(%q) = %v, want %v", a.Key(), b.Key(), a.Overlaps(b), overlap)
		}
		if a.Includes(b) != includes {
			t.Fatalf("%q.Includes(%q) = %v, want %v", a.Key(), b.Key(), a.Includes(b), includes)
		}
	})
}

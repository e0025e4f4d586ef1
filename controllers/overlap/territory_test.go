package overlap

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/selectorindex"
)

func coverage(t interface{ Fatal(...any) }, app, exempt string) selectorindex.Coverage {
	spec := &v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{}}
	if app != "" {
		spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": app}}
	}
	if exempt != "" {
		spec.ExemptPodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": exempt}}
	}
	c, err := selectorindex.CoverageOf(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Whatever protectors come, change and go: each knows its rivals, and whoever's rivals have changed is told.
func TestEachKnowsItsRivals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, there := newTerritory(), map[types.NamespacedName]selectorindex.Coverage{}
		known := map[types.NamespacedName][]string{}
		look := func(told []types.NamespacedName) {
			for key := range there {
				var want []string
				for other, c := range there {
					if other != key && other.Namespace == key.Namespace && c.Overlaps(there[key]) {
						want = append(want, other.Name)
					}
				}
				slices.Sort(want)
				if diff := cmp.Diff(want, all.rivals(key)); diff != "" {
					t.Fatalf("rivals of %s (-want +got):\n%s", key, diff)
				}
				if !slices.Equal(want, known[key]) && !slices.Contains(told, key) {
					t.Fatalf("%s was not told: it knows %v, and has %v", key, known[key], want)
				}
				known[key] = want
			}
		}
		drawKey := func(t *rapid.T) types.NamespacedName {
			return types.NamespacedName{
				Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), Name: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "name")),
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"claim": func(t *rapid.T) {
				key := drawKey(t)
				apps := rapid.SampledFrom([]string{"", "x", "y"})
				there[key] = coverage(t, apps.Draw(t, "app"), apps.Draw(t, "exempt"))
				look(append(all.claim(key, there[key]), key))
			},
			"abandon": func(t *rapid.T) {
				key := drawKey(t)
				delete(there, key)
				delete(known, key)
				look(all.abandon(key))
			},
		})
		for key := range there {
			all.abandon(key)
		}
		if len(all.claims) != 0 {
			t.Fatalf("something is left: %+v", all.claims)
		}
	})
}

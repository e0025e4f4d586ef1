package overlap

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// drawProtector draws a protector that covers the pods of an app, or in some cells those of a workload, and exempts those of another app.
func drawProtector(t *rapid.T) *v1alpha1.PodProtector {
	apps := rapid.SampledFrom([]string{"", "x", "y"})
	p := &v1alpha1.PodProtector{}
	if exempt := apps.Draw(t, "exempt"); exempt != "" {
		p.Spec.ExemptPodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": exempt}}
	}
	if rapid.Bool().Draw(t, "has a selector") {
		p.Spec.Selector = &v1alpha1.PodSelector{}
		if app := apps.Draw(t, "app"); app != "" {
			p.Spec.Selector.MatchLabels = map[string]string{"app": app}
		}
		return p
	}
	p.Spec.TargetRef = &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	for _, cell := range cells() {
		if !rapid.Bool().Draw(t, cell+" is counted") {
			continue
		}
		aggregation := v1alpha1.Aggregation{CountedSpec: quota.CountedSpec(&p.Spec)}
		if app := apps.Draw(t, cell); app != "" {
			aggregation.Target = &v1alpha1.Target{Selector: "app=" + app}
		}
		p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{CellID: cell, Aggregation: aggregation})
	}
	return p
}

func cells() []string { return []string{"c0", "c1"} }

// covers is a slow and obvious oracle for whether a protector covers pods of an app in a cell.
func covers(p *v1alpha1.PodProtector, cell, app string) bool {
	var target *v1alpha1.Target
	if stored := quota.CellOf(p, cell); stored != nil {
		target = stored.Aggregation.Target
	}
	c, err := selectors.CoverageOf(&p.Spec, target)
	return err == nil && c.Covers(map[string]string{"app": app})
}

func overlap(a, b *v1alpha1.PodProtector) bool {
	for _, cell := range cells() {
		for _, app := range []string{"x", "y", "z"} {
			if covers(a, cell, app) && covers(b, cell, app) {
				return true
			}
		}
	}
	return false
}

// However protectors are created, changed and deleted, each has the right rivals, and each protector whose rivals changed is returned.
func TestCoverageIndexMatchesOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		index, existing := newCoverageIndex(), map[types.NamespacedName]*v1alpha1.PodProtector{}
		reported := map[types.NamespacedName][]string{}
		check := func(affected []types.NamespacedName) {
			for key := range existing {
				var want []string
				for other, c := range existing {
					if other != key && other.Namespace == key.Namespace && overlap(c, existing[key]) {
						want = append(want, other.Name)
					}
				}
				slices.Sort(want)
				if diff := cmp.Diff(want, index.overlapping(key)); diff != "" {
					t.Fatalf("overlapping(%s) (-want +got):\n%s", key, diff)
				}
				if !slices.Equal(want, reported[key]) && !slices.Contains(affected, key) {
					t.Fatalf("%s was not returned as affected: reported %v, now %v", key, reported[key], want)
				}
				reported[key] = want
			}
		}
		drawKey := func(t *rapid.T) types.NamespacedName {
			return types.NamespacedName{
				Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), Name: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "name")),
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				key := drawKey(t)
				existing[key] = drawProtector(t)
				check(append(index.set(key, coverageOf(existing[key])), key))
			},
			"remove": func(t *rapid.T) {
				key := drawKey(t)
				delete(existing, key)
				delete(reported, key)
				check(index.remove(key))
			},
		})
		for key := range existing {
			index.remove(key)
		}
		if len(index.coverages) != 0 {
			t.Fatalf("index has entries after all removals: %+v", index.coverages)
		}
	})
}

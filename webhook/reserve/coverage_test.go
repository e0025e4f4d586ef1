package reserve

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// coveredBy computes in the simplest way whether a protector covers a pod of a cell, by its label app.
func coveredBy(p *v1alpha1.PodProtector, cell, app string) bool {
	if exempt := p.Spec.ExemptPodSelector; exempt != nil && exempt.MatchLabels["app"] == app {
		return false
	}
	if p.Spec.TargetRef == nil {
		return p.Spec.Selector.MatchLabels["app"] == app
	}
	entry := quota.CellOf(p, cell)
	switch {
	case entry == nil, entry.Aggregation.CountedSpec != quota.CountedSpec(&p.Spec):
		return true // no aggregator has looked for the workload of this name there
	case entry.Aggregation.Target == nil:
		return false
	default:
		return entry.Aggregation.Target.Selector == "app="+app
	}
}

func drawCovering(t *rapid.T) *v1alpha1.PodProtector {
	app := rapid.SampledFrom([]string{"x", "y"})
	p := memoryProtector(fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "name")), 1, 1)
	p.Namespace, p.Status.Cells = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), nil
	if rapid.Bool().Draw(t, "has exempt pods") {
		p.Spec.ExemptPodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": app.Draw(t, "exempt")}}
	}
	if rapid.Bool().Draw(t, "has a selector") {
		p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": app.Draw(t, "app")}}
		return p
	}
	p.Spec.Selector = nil
	p.Spec.TargetRef = &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: app.Draw(t, "target")}
	for _, cell := range []string{"c0", "c1"} {
		found := rapid.SampledFrom([]string{"not counted", "by another spec", "nothing", "x", "y"}).Draw(t, cell)
		entry := v1alpha1.PodProtectorCell{CellID: cell, Aggregation: v1alpha1.Aggregation{CountedSpec: quota.CountedSpec(&p.Spec)}}
		switch found {
		case "not counted":
			continue
		case "by another spec":
			entry.Aggregation.CountedSpec = "another"
		case "nothing":
		default:
			entry.Aggregation.Target = &v1alpha1.Target{Selector: "app=" + found}
		}
		p.Status.Cells = append(p.Status.Cells, entry)
	}
	return p
}

// After any sequence of watch events, a pod has exactly the protectors that cover it in its cell.
func TestCoverageIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &States{coverage: newCoverageIndex(), conflicts: &conflictLog{}, onDrop: func(string, types.NamespacedName) {}}
		stored := map[types.NamespacedName]*v1alpha1.PodProtector{}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				p := drawCovering(t)
				key := client.ObjectKeyFromObject(p)
				if old, had := stored[key]; !had || !sameCoverage(old, p) {
					c.SetCoverage(p)
				}
				stored[key] = p
			},
			"delete": func(t *rapid.T) {
				p := drawCovering(t)
				delete(stored, client.ObjectKeyFromObject(p))
				c.HandleDelete(p)
			},
			"": func(t *rapid.T) {
				for _, cell := range []string{"c0", "c1", "c2"} {
					for _, namespace := range []string{"a", "b"} {
						for _, app := range []string{"x", "y", "z"} {
							var want, got []string
							for key, p := range stored {
								if key.Namespace == namespace && coveredBy(p, cell, app) {
									want = append(want, key.Name)
								}
							}
							for _, key := range c.coverage.covering(cell, namespace, map[string]string{"app": app}) {
								got = append(got, key.Name)
							}
							slices.Sort(want)
							slices.Sort(got)
							if diff := cmp.Diff(want, got); diff != "" {
								t.Fatalf("protectors of a pod app=%s in cell %s, namespace %s (-want +got):\n%s", app, cell, namespace, diff)
							}
						}
					}
				}
			},
		})
	})
}

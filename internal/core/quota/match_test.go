package quota_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func TestMatchOf(t *testing.T) {
	zero, three := int32(0), int32(3)
	type change = func(*v1alpha1.PodProtector)
	cells := func(totals ...int32) change {
		return func(p *v1alpha1.PodProtector) {
			for i, total := range totals {
				cell := v1alpha1.PodProtectorCell{CellID: "c" + string(rune('0'+i))}
				cell.Aggregation.TotalReplicas, cell.Aggregation.CountedSpec = total, quota.CountedSpec(&p.Spec)
				p.Status.Cells = append(p.Status.Cells, cell)
			}
		}
	}
	workload := func(cell int, replicas int32) change {
		return func(p *v1alpha1.PodProtector) {
			a := &p.Status.Cells[cell].Aggregation
			a.Workloads = append(a.Workloads, v1alpha1.ExpectedWorkload{Kind: "Deployment", Name: "web", Replicas: replicas})
		}
	}
	target := func(cell int, replicas int32) change {
		return func(p *v1alpha1.PodProtector) {
			p.Status.Cells[cell].Aggregation.Target = &v1alpha1.Target{Selector: "app=web", Replicas: replicas}
		}
	}
	targetRef := func(p *v1alpha1.PodProtector) {
		p.Spec.Selector, p.Spec.TargetRef = nil, &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	}
	expected := func(n *int32) change { return func(p *v1alpha1.PodProtector) { p.Spec.ExpectedReplicas = n } }
	aggregation := func(cell int, edit func(*v1alpha1.Aggregation)) change {
		return func(p *v1alpha1.PodProtector) { edit(&p.Status.Cells[cell].Aggregation) }
	}
	resolved := func(reason string) change {
		return func(p *v1alpha1.PodProtector) {
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionTargetResolved, Status: metav1.ConditionTrue, Reason: reason}}
		}
	}
	for claim, c := range map[string]struct {
		changes []change
		want    quota.Match
	}{
		"no cell has counted":                              {nil, quota.MatchUnknown},
		"a cell has pods":                                  {[]change{cells(0, 2)}, quota.MatchPods},
		"no cell has pods":                                 {[]change{cells(0, 0)}, quota.MatchNothing},
		"a cell counted by another spec":                   {[]change{cells(0, 0), aggregation(1, func(a *v1alpha1.Aggregation) { a.CountedSpec = "other" })}, quota.MatchUnknown},
		"pods, and a cell counted by another spec":         {[]change{cells(1, 0), aggregation(1, func(a *v1alpha1.Aggregation) { a.CountedSpec = "other" })}, quota.MatchPods},
		"the counts are void":                              {[]change{cells(0), aggregation(0, func(a *v1alpha1.Aggregation) { a.Void = true })}, quota.MatchUnknown},
		"a cleared entry beside one without pods":          {[]change{cells(0, 0), func(p *v1alpha1.PodProtector) { p.Status.Cells[1].Discount = v1alpha1.DiscountCleared }}, quota.MatchNothing},
		"the spec expects none":                            {[]change{expected(&zero), cells(0)}, quota.MatchScaledToZero},
		"the spec expects three":                           {[]change{expected(&three), cells(0)}, quota.MatchNothing},
		"its source is scaled to 0":                        {[]change{cells(0), resolved(v1alpha1.ReasonScaledToZero)}, quota.MatchScaledToZero},
		"its source is not":                                {[]change{cells(0), resolved(v1alpha1.ReasonSourceFound)}, quota.MatchNothing},
		"its source is scaled to 0, but a cell has pods":   {[]change{cells(1), resolved(v1alpha1.ReasonScaledToZero)}, quota.MatchPods},
		"its known workloads are scaled to 0":              {[]change{cells(0, 0), workload(0, 0), workload(1, 0)}, quota.MatchScaledToZero},
		"one of its workloads is not":                      {[]change{cells(0, 0), workload(0, 0), workload(1, 3)}, quota.MatchNothing},
		"an expectation of 0 without a workload (a typo)":  {[]change{cells(0), aggregation(0, func(a *v1alpha1.Aggregation) { a.ExpectedReplicas = &zero })}, quota.MatchNothing},
		"its target was not found":                         {[]change{targetRef, cells(0)}, quota.MatchUnknown},
		"its target is scaled to 0":                        {[]change{targetRef, cells(0, 0), target(0, 0)}, quota.MatchScaledToZero},
		"its target wants pods, and none exists":           {[]change{targetRef, cells(0), target(0, 3)}, quota.MatchNothing},
		"its target is scaled to 0 in one cell of the two": {[]change{targetRef, cells(0, 0), target(0, 0), target(1, 2)}, quota.MatchNothing},
	} {
		t.Run(claim, func(t *testing.T) {
			p := &v1alpha1.PodProtector{}
			p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}, v1alpha1.Pods(0)
			for _, change := range c.changes {
				change(p)
			}
			if got := quota.MatchOf(p); got != c.want {
				t.Errorf("MatchOf() = %s, want %s", got, c.want)
			}
		})
	}
}

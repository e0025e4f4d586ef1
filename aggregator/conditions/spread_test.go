package conditions

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// spreadProtector returns a protector with its pods in these cells, whose spread requires nothing and only reports.
func spreadProtector(floor int32, key string, cells ...*v1alpha1.CellDomains) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Generation: 7}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Spec.MinAvailable = v1alpha1.Pods(floor)
	p.Spec.Spread = &v1alpha1.Spread{TopologyKey: key}
	for i, spread := range cells {
		cell := v1alpha1.PodProtectorCell{CellID: fmt.Sprint("c", i)}
		cell.Aggregation.CountedSpec, cell.Aggregation.Spread = quota.CountedSpec(&p.Spec), spread
		cell.Aggregation.CountedReplicas = spread.Unknown
		for _, d := range spread.Domains {
			cell.Aggregation.CountedReplicas += d.Counted
		}
		if spread.Others != nil {
			cell.Aggregation.CountedReplicas += spread.Others.Counted
		}
		p.Status.Cells = append(p.Status.Cells, cell)
	}
	return p
}

// inZones returns pods in the zones a, b and so on.
func inZones(pods ...int32) *v1alpha1.CellDomains {
	d := &v1alpha1.CellDomains{TopologyKey: corev1.LabelTopologyZone}
	for i, number := range pods {
		if number > 0 {
			d.Domains = append(d.Domains, v1alpha1.DomainCount{Name: string(rune('a' + i)), Counted: number})
		}
	}
	return d
}

func unknownPods(d *v1alpha1.CellDomains, pods int32, problem string) *v1alpha1.CellDomains {
	d.Unknown, d.Problem = pods, problem
	return d
}

func withOtherDomains(d *v1alpha1.CellDomains, domains, counted, largest int32) *v1alpha1.CellDomains {
	d.Others = &v1alpha1.OtherDomains{Domains: domains, Counted: counted, Largest: largest}
	return d
}

type protectorChange = func(*v1alpha1.PodProtector)

func maxShareIs(percent int32) protectorChange {
	return func(p *v1alpha1.PodProtector) { p.Spec.Spread.MaxSharePercent = &percent }
}

func minDomainsIs(domains int32) protectorChange {
	return func(p *v1alpha1.PodProtector) { p.Spec.Spread.MinDomains = &domains }
}

func tolerateLoss(p *v1alpha1.PodProtector) { p.Spec.Spread.TolerateDomainLoss = true }

func discount(reason v1alpha1.Discount) protectorChange {
	return func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Discount = reason }
}

func TestSpreadSatisfied(t *testing.T) {
	const cells = v1alpha1.TopologyKeyCell
	for claim, c := range map[string]struct {
		of      *v1alpha1.PodProtector
		changes []protectorChange
		want    string // status/reason: the prefix of the message, and further substrings of it
	}{
		"nothing is required, and all is reported": {spreadProtector(1, corev1.LabelTopologyZone, inZones(3, 1), inZones(0, 1)), nil,
			`True/Spread: 5 pods in 2 domains; "a" has the most, 3 (60%).`},
		"a share is rounded up": {spreadProtector(1, corev1.LabelTopologyZone, inZones(2, 1, 1)), []protectorChange{maxShareIs(34)}, "True/Spread: 4 pods"},
		"a share is too large": {spreadProtector(1, corev1.LabelTopologyZone, inZones(3, 1), inZones(1, 1)), []protectorChange{maxShareIs(50)},
			`False/ShareTooLarge: "a" has 4 of 6 pods (67%), and maxSharePercent 50 allows 3.|delete some in "a"|which makes new ones run elsewhere`},
		"the scheduler sees to it": {spreadProtector(1, corev1.LabelTopologyZone, inZones(4, 1)), []protectorChange{maxShareIs(50), func(p *v1alpha1.PodProtector) {
			p.Spec.Spread.Enforcement = v1alpha1.SpreadSchedule
		}}, `False/ShareTooLarge: "a" has|; new ones are scheduled elsewhere.`},
		"a cell has too many":               {spreadProtector(1, cells, inZones(4), inZones(1)), []protectorChange{maxShareIs(50)}, `False/ShareTooLarge: "c0" has 4 of 5 pods|scale the application up in other cells`},
		"too few domains":                   {spreadProtector(1, corev1.LabelTopologyZone, inZones(2, 2)), []protectorChange{minDomainsIs(3)}, "False/TooFewDomains: It has 4 pods in 2 domains (a, b), and minDomains requires 3."},
		"too few pods":                      {spreadProtector(1, corev1.LabelTopologyZone, inZones(1, 1)), []protectorChange{minDomainsIs(3)}, "False/TooFewDomains: It has 2 pods, too few for the 3 domains"},
		"none are left":                     {spreadProtector(1, corev1.LabelTopologyZone, inZones()), []protectorChange{minDomainsIs(2), tolerateLoss}, "False/TooFewDomains: It has 0 pods"},
		"none are wanted, by the floor":     {spreadProtector(0, corev1.LabelTopologyZone, inZones()), []protectorChange{minDomainsIs(3), maxShareIs(34), tolerateLoss}, "True/Spread: There are no pods, and none are expected."},
		"none are wanted, by the replicas":  {spreadProtector(2, corev1.LabelTopologyZone, inZones()), []protectorChange{minDomainsIs(3), func(p *v1alpha1.PodProtector) { p.Spec.ExpectedReplicas = new(int32) }}, "True/Spread: There are no pods"},
		"the floor outlives a zone":         {spreadProtector(4, corev1.LabelTopologyZone, inZones(2, 2, 2)), []protectorChange{tolerateLoss}, "True/Spread: 6 pods"},
		"the floor does not outlive a zone": {spreadProtector(5, corev1.LabelTopologyZone, inZones(2, 2, 2)), []protectorChange{tolerateLoss}, `False/DomainLossBreaksFloor: If "a" is lost, 4 of 6 pods are left, and the floor is 5.`},
		"the floor does not outlive a cell": {spreadProtector(2, cells, inZones(2), inZones(1)), []protectorChange{tolerateLoss}, `False/DomainLossBreaksFloor: If "c0" is lost, 1 of 3 pods`},
		"no floor, no loss":                 {spreadProtector(0, corev1.LabelTopologyZone, inZones(2)), []protectorChange{tolerateLoss}, "True/Spread"},
		"several things are wrong":          {spreadProtector(3, corev1.LabelTopologyZone, inZones(3, 1)), []protectorChange{maxShareIs(50), minDomainsIs(3), tolerateLoss}, `False/ShareTooLarge: "a" has 3 of 4|minDomains requires 3|If "a" is lost, 1 of 4`},
		"pods without a domain do not matter": {spreadProtector(1, corev1.LabelTopologyZone, unknownPods(inZones(2, 2, 2), 1, "")), []protectorChange{maxShareIs(50), minDomainsIs(3), tolerateLoss},
			`True/Spread: 6 pods in 3 domains|In cell c0, the nodes of 1 pod no longer exist or lack the label ` + corev1.LabelTopologyZone},
		"pods without a domain may be too many":              {spreadProtector(1, corev1.LabelTopologyZone, unknownPods(inZones(2, 2), 2, "away")), []protectorChange{maxShareIs(50)}, "Unknown/DomainsUnknown: A domain may have 4 of 6 pods, and maxSharePercent 50 allows 3.|Cell c0, with 2 pods: away."},
		"too large wherever the others are":                  {spreadProtector(1, corev1.LabelTopologyZone, unknownPods(inZones(5, 1), 2, "away")), []protectorChange{maxShareIs(50)}, `False/ShareTooLarge: "a" has 5 of 8`},
		"pods without a domain may be in another domain":     {spreadProtector(1, corev1.LabelTopologyZone, unknownPods(inZones(2, 2), 1, "")), []protectorChange{minDomainsIs(3)}, "Unknown/DomainsUnknown: Between 2 and 3 domains have pods"},
		"pods without a domain may be lost, too":             {spreadProtector(3, corev1.LabelTopologyZone, unknownPods(inZones(2, 2), 1, "")), []protectorChange{tolerateLoss}, "Unknown/DomainsUnknown: If a domain is lost, possibly only 2 of 5 pods are left, and the floor is 3."},
		"lost wherever the others are":                       {spreadProtector(4, corev1.LabelTopologyZone, unknownPods(inZones(2, 2), 1, "")), []protectorChange{tolerateLoss}, `False/DomainLossBreaksFloor: If "a" is lost, 3 of 5`},
		"no pod has a domain":                                {spreadProtector(1, corev1.LabelTopologyZone, unknownPods(inZones(), 3, "may not")), []protectorChange{minDomainsIs(2)}, "Unknown/DomainsUnknown: Between 0 and 3 domains have pods, and minDomains requires 2. Cell c0, with 3 pods: may not."},
		"no pod has a domain, and the spec requires nothing": {spreadProtector(1, corev1.LabelTopologyZone, unknownPods(inZones(), 3, "")), nil, "True/Spread: No pod is in a known domain (3 pods in all)"},
		"many domains in one cell":                           {spreadProtector(1, corev1.LabelTopologyZone, withOtherDomains(inZones(1, 1), 98, 98, 1)), []protectorChange{minDomainsIs(100), maxShareIs(2)}, `True/Spread: 100 pods in 100 domains; "a" has the most, 1 (1%).`},
		"many domains, which may be the same":                {spreadProtector(1, corev1.LabelTopologyZone, withOtherDomains(inZones(1, 1), 3, 3, 1), withOtherDomains(inZones(1, 1), 3, 3, 1)), []protectorChange{minDomainsIs(6)}, "Unknown/DomainsUnknown: Between 5 and 8 domains"},
		"many domains, which may be one of another cell":     {spreadProtector(1, corev1.LabelTopologyZone, withOtherDomains(inZones(2), 3, 3, 1), withOtherDomains(inZones(0, 2), 3, 3, 1)), []protectorChange{maxShareIs(20)}, "Unknown/DomainsUnknown: A domain may have 3 of 10 pods"},
		"a cell that has counted by another key": {spreadProtector(1, corev1.LabelTopologyZone, inZones(2, 2), inZones(1)), []protectorChange{func(p *v1alpha1.PodProtector) {
			p.Status.Cells[1].Aggregation.Spread.TopologyKey = "example.com/rack"
		}, minDomainsIs(3)}, "Unknown/DomainsUnknown: Between 2 and 3 domains|Cell c1 has not counted its 1 pod by " + corev1.LabelTopologyZone + " yet."},
		"a cell that has counted another spec": {spreadProtector(1, corev1.LabelTopologyZone, inZones(2, 2), inZones(1)), []protectorChange{func(p *v1alpha1.PodProtector) {
			p.Status.Cells[1].Aggregation.CountedSpec = "another"
		}, maxShareIs(10)}, "Unknown/DomainsUnknown: The domains of some pods are unknown: cell c1 has not counted its pods for this spec."},
		"counts that are void": {spreadProtector(1, corev1.LabelTopologyZone, inZones(2, 2)), []protectorChange{func(p *v1alpha1.PodProtector) { quota.VoidCounts(&p.Status.Cells[0].Aggregation) }, minDomainsIs(3)},
			"Unknown/DomainsUnknown: The domains of some pods are unknown: cell c0 is counted again"},
		"no cell has counted":         {spreadProtector(1, corev1.LabelTopologyZone), []protectorChange{minDomainsIs(3)}, "Unknown/DomainsUnknown: The domains of some pods are unknown: no cell has counted"},
		"the floor is not known":      {spreadProtector(1, corev1.LabelTopologyZone, inZones(2, 2)), []protectorChange{tolerateLoss, func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable, p.Spec.MaxUnavailable = nil, v1alpha1.Pods(1) }}, "Unknown/DomainsUnknown: The floor is unknown"},
		"a stale cell does not count": {spreadProtector(1, corev1.LabelTopologyZone, inZones(2, 2, 2), inZones(2, 1)), []protectorChange{discount(v1alpha1.DiscountStale), minDomainsIs(3)}, "False/TooFewDomains: It has 3 pods in 2 domains"},
		"a stale cell that has counted another spec is not awaited": {spreadProtector(1, corev1.LabelTopologyZone, inZones(2, 2, 2), inZones(2, 1)), []protectorChange{discount(v1alpha1.DiscountStale), func(p *v1alpha1.PodProtector) {
			p.Status.Cells[0].Aggregation.CountedSpec = "another"
		}}, "True/Spread: 3 pods"},
		"a draining cell does not count": {spreadProtector(1, corev1.LabelTopologyZone, inZones(9), inZones(2, 2)), []protectorChange{discount(v1alpha1.DiscountDraining), maxShareIs(50)}, "True/Spread: 4 pods"},
		"a cleared cell is awaited":      {spreadProtector(1, corev1.LabelTopologyZone, inZones(9), inZones(2, 2)), []protectorChange{discount(v1alpha1.DiscountCleared), func(p *v1alpha1.PodProtector) { p.Status.Cells[0].Aggregation.CountedSpec = "" }}, "Unknown/DomainsUnknown: The domains of some pods are unknown: cell c0"},
		"a domain without a name":        {spreadProtector(1, corev1.LabelTopologyZone, &v1alpha1.CellDomains{TopologyKey: corev1.LabelTopologyZone, Domains: []v1alpha1.DomainCount{{Counted: 2}}}), []protectorChange{maxShareIs(50)}, `False/ShareTooLarge: "" has 2 of 2`},
		"reservations are still there": {spreadProtector(4, corev1.LabelTopologyZone, inZones(2, 2, 2)), []protectorChange{tolerateLoss, func(p *v1alpha1.PodProtector) {
			p.Status.Cells[0].AdmissionHistory.Buckets = []v1alpha1.Bucket{{Counter: 1, PodUID: "a"}}
		}}, "True/Spread: 6 pods"},
	} {
		t.Run(claim, func(t *testing.T) {
			for _, change := range c.changes {
				change(c.of)
			}
			setSpreadCondition(c.of)
			got := meta.FindStatusCondition(c.of.Status.Conditions, v1alpha1.ConditionSpreadSatisfied)
			text := fmt.Sprintf("%s/%s: %s", got.Status, got.Reason, got.Message)
			begin, more, _ := strings.Cut(c.want, "|")
			if !strings.HasPrefix(text, begin) || got.ObservedGeneration != 7 {
				t.Errorf("got  %s\nwant %s", text, begin)
			}
			for _, part := range strings.Split(more, "|") {
				if !strings.Contains(text, part) {
					t.Errorf("got  %s\nwithout %s", text, part)
				}
			}
		})
	}
}

func TestStatusSpreadIsInformational(t *testing.T) {
	p := spreadProtector(1, corev1.LabelTopologyZone, unknownPods(inZones(3, 2), 1, ""), withOtherDomains(inZones(0, 0, 1), 2, 3, 2))
	setSpreadCondition(p)
	want := &v1alpha1.SpreadStatus{
		TopologyKey: corev1.LabelTopologyZone, Domains: 5, Largest: "a", LargestCounted: 3, LargestSharePercent: 30, Unknown: 1,
		AvailableAfterLoss: 4, // 10, minus the unknown one, those of "a" and the 2 that may be there
	}
	if diff := cmp.Diff(want, p.Status.Spread); diff != "" {
		t.Errorf("status.spread (-want +got):\n%s", diff)
	}
	p.Spec.Spread = nil
	setSpreadCondition(p)
	if p.Status.Spread != nil || len(p.Status.Conditions) > 0 {
		t.Errorf("without spec.spread, status.spread %+v and conditions %+v are left", p.Status.Spread, p.Status.Conditions)
	}
}

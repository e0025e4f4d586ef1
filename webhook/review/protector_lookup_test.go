package review

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// The root guard of a worker asks which shares depend on an object.
func TestEachProtectorVisitsShares(t *testing.T) {
	share := memoryProtector("web.share-1", 1, 1)
	share.Spec.ShareOf = &v1alpha1.ShareOf{Name: "web", UID: "1", Cell: memoryCell}
	d := newMemoryFixture(t, memoryProtector("web", 1, 1), share)
	var got []string
	d.EachProtector("default", func(_ string, p *v1alpha1.PodProtector) { got = append(got, p.Name) })
	slices.Sort(got)
	if diff := cmp.Diff([]string{"web", "web.share-1"}, got); diff != "" {
		t.Errorf("EachProtector() visits (-want +got):\n%s", diff)
	}
}

func TestProtectorsOfUsesSelectorOfCell(t *testing.T) {
	web := map[string]string{"app": "web"}
	selecting := func(name string) *v1alpha1.PodProtector {
		p := memoryProtector(name, 1, 1)
		p.Namespace, p.Labels, p.Status.Cells = "shop", map[string]string{"tier": name}, nil
		p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: web}
		return p
	}
	// targeting names a workload; target is what the aggregator found, and nil means that it found none.
	targeting := func(name string, looked bool, target *v1alpha1.Target) *v1alpha1.PodProtector {
		p := selecting(name)
		p.Spec.Selector, p.Spec.TargetRef = nil, &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
		if looked {
			p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: memoryCell, Aggregation: v1alpha1.Aggregation{CountedSpec: quota.CountedSpec(&p.Spec), Target: target}}}
		}
		return p
	}
	exempting := selecting("exempting")
	exempting.Spec.ExemptPodSelector = &v1alpha1.PodSelector{MatchLabels: web}
	for claim, c := range map[string]struct {
		protector *v1alpha1.PodProtector
		covers    bool
		want      *v1alpha1.PodSelector
	}{
		"its own":                          {selecting("a"), true, &v1alpha1.PodSelector{MatchLabels: web}},
		"that of its workload":             {targeting("a", true, &v1alpha1.Target{Selector: "app=web"}), true, &v1alpha1.PodSelector{MatchLabels: web}},
		"none of a workload of other pods": {targeting("a", true, &v1alpha1.Target{Selector: "app=other"}), false, nil},
		"none of a workload that the cell does not have": {targeting("a", true, nil), false, nil},
		"none without a count of the cell":               {targeting("a", false, nil), false, nil},
		"none of exempt pods":                            {exempting, false, nil},
	} {
		t.Run(claim, func(t *testing.T) {
			var want []scheduling.Protector
			if c.covers {
				want = []scheduling.Protector{{Core: "core", Namespace: "shop", Name: c.protector.Name, Labels: c.protector.Labels, Selector: c.want}}
			}
			d := newMemoryFixture(t, c.protector)
			if diff := cmp.Diff(want, d.ProtectorsOf([]string{"core"}, memoryCell, "shop", web)); diff != "" {
				t.Errorf("protectors (-want +got):\n%s", diff)
			}
			if got := d.ProtectorsOf([]string{"other"}, memoryCell, "shop", web); got != nil {
				t.Errorf("protectors %v of another core cluster, want none", got)
			}
		})
	}
}

func TestProtectorsOfUsesSpreadOfCell(t *testing.T) {
	web := map[string]string{"app": "web"}
	p := memoryProtector("a", 1, 1)
	p.Namespace, p.Spec.Selector = "shop", &v1alpha1.PodSelector{MatchLabels: web}
	p.Spec.Spread = &v1alpha1.Spread{TopologyKey: "zone", MinDomains: new(int32), Enforcement: v1alpha1.SpreadSchedule}
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: memoryCell}}
	d := newMemoryFixture(t, p)
	for cell, alone := range map[string]bool{memoryCell: true, "another": false} {
		want := []scheduling.Protector{{
			Core: "core", Namespace: "shop", Name: "a", Selector: p.Spec.Selector,
			Spread: &scheduling.Spread{TopologyKey: "zone", MinDomains: p.Spec.Spread.MinDomains, SingleCell: alone},
		}}
		if diff := cmp.Diff(want, d.ProtectorsOf([]string{"core"}, cell, "shop", web)); diff != "" {
			t.Errorf("protectors in %s (-want +got):\n%s", cell, diff)
		}
	}
	for other, alone := range map[string]bool{"": true, memoryCell: true, "another": false} {
		d.cells = NewCells(nil)
		if other != "" {
			d.cells.static[other] = nil
		}
		if got := d.ProtectorsOf([]string{"core"}, memoryCell, "shop", web); len(got) != 1 || got[0].Spread.SingleCell != alone {
			t.Errorf("protectors %+v with cell %q, which has not counted yet; want alone %v", got, other, alone)
		}
	}
}

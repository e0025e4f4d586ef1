package quota_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

const zone = "topology.kubernetes.io/zone"

// spread sets spec.spread of a protector.
func spread(p *v1alpha1.PodProtector, key string) *v1alpha1.PodProtector {
	p.Spec.Spread = &v1alpha1.Spread{TopologyKey: key, TolerateDomainLoss: true}
	return p
}

// placed sets the zones of a cell's pods; the rest is unknown.
func placed(p *v1alpha1.PodProtector, cell int, zones ...v1alpha1.DomainCount) *v1alpha1.CellDomains {
	a := &p.Status.Cells[cell].Aggregation
	a.Spread = &v1alpha1.CellDomains{TopologyKey: zone, Domains: zones, Unknown: a.CountedReplicas}
	for _, z := range zones {
		a.Spread.Unknown -= z.Counted
	}
	return a.Spread
}

func in(zone string, counted int32) v1alpha1.DomainCount {
	return v1alpha1.DomainCount{Name: zone, Counted: counted}
}

func TestDistributionOfAddsUpCells(t *testing.T) {
	zones := spread(protector(5, 7, 4, 3), zone)
	placed(zones, 0, in("a", 4), in("b", 2), in("empty", 0))
	placed(zones, 1, in("b", 3)).Others = &v1alpha1.OtherDomains{Domains: 1, Counted: 1, Largest: 1}
	other := zones.DeepCopy()
	other.Spec.Spread.TopologyKey = "topology.kubernetes.io/region"
	stale := zones.DeepCopy()
	stale.Status.Cells[0].Discount, stale.Status.Cells[1].Aggregation.CountedSpec = v1alpha1.DiscountStale, "another"
	for claim, c := range map[string]struct {
		of          *v1alpha1.PodProtector
		want        quota.Distribution
		largest     quota.DomainShare
		least, most int
	}{
		"one value in two cells is one domain": {
			zones,
			quota.Distribution{
				TopologyKey: zone, Domains: []quota.DomainShare{{Name: "a", Counted: 4, AtMost: 5}, {Name: "b", Counted: 5, AtMost: 5}},
				Others: v1alpha1.OtherDomains{Domains: 1, Counted: 1, Largest: 1}, Unknown: 4, Total: 14, Floor: 5, FloorKnown: true,
			},
			quota.DomainShare{Name: "b", Counted: 5, AtMost: 5}, 5, 9,
		},
		"ignores domain counts by another key": {
			other, quota.Distribution{TopologyKey: "topology.kubernetes.io/region", Unknown: 14, Total: 14, Floor: 5, FloorKnown: true}, quota.DomainShare{}, 0, 14,
		},
		"ignores counts of another spec": {stale, quota.Distribution{TopologyKey: zone, Unknown: 3, Total: 3, Floor: 5, FloorKnown: true}, quota.DomainShare{}, 0, 3},
		"cells are domains": {
			spread(protector(5, 7, 0, 3), v1alpha1.TopologyKeyCell),
			quota.Distribution{
				TopologyKey: v1alpha1.TopologyKeyCell, Domains: []quota.DomainShare{{Name: "c0", Counted: 7, AtMost: 7}, {Name: "c2", Counted: 3, AtMost: 3}},
				Total: 10, Floor: 5, FloorKnown: true,
			},
			quota.DomainShare{Name: "c0", Counted: 7, AtMost: 7}, 3, 3,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			got, ok := quota.DistributionOf(c.of)
			if diff := cmp.Diff(c.want, got); diff != "" || !ok {
				t.Errorf("DistributionOf() ok = %v, shares (-want +got):\n%s", ok, diff)
			}
			if largest, _ := got.Largest(); largest != c.largest {
				t.Errorf("Largest() = %+v, want %+v", largest, c.largest)
			}
			if least, most := got.AfterLoss(); least != c.least || most != c.most {
				t.Errorf("AfterLoss() = %d, %d, want %d, %d", least, most, c.least, c.most)
			}
		})
	}
	if _, ok := quota.DistributionOf(protector(5, 7)); ok {
		t.Error("DistributionOf() without spec.spread: ok = true, want false")
	}
}

package quota_test

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func TestDomainsOfReturnsBounds(t *testing.T) {
	others := func(p *v1alpha1.PodProtector, cell int, domains int32, zones ...v1alpha1.DomainCount) {
		spread := placed(p, cell, zones...)
		spread.Others, spread.Unknown = &v1alpha1.OtherDomains{Domains: domains, Counted: domains, Largest: 1}, spread.Unknown-domains
	}
	for claim, c := range map[string]struct {
		counted     []int32
		place       func(p *v1alpha1.PodProtector)
		least, most int
	}{
		"all are known": {[]int32{3, 2}, func(p *v1alpha1.PodProtector) {
			placed(p, 0, in("a", 2), in("b", 1))
			placed(p, 1, in("b", 1), in("c", 1))
		}, 3, 3},
		"each unknown pod may be in its own domain": {[]int32{5}, func(p *v1alpha1.PodProtector) { placed(p, 0, in("a", 2)) }, 1, 4},
		"other domains of one cell":                 {[]int32{5}, func(p *v1alpha1.PodProtector) { others(p, 0, 3, in("a", 1), in("b", 1)) }, 5, 5},
		"other domains of two cells may be the same, or listed by the other cell": {[]int32{5, 4}, func(p *v1alpha1.PodProtector) {
			others(p, 0, 3, in("a", 1), in("b", 1))
			others(p, 1, 2, in("a", 1), in("c", 1))
		}, 5, 8},
		"a discounted cell has no domains": {[]int32{5, 4}, func(p *v1alpha1.PodProtector) {
			others(p, 0, 3, in("a", 1), in("b", 1))
			placed(p, 1, in("c", 4))
			p.Status.Cells[0].Discount = v1alpha1.DiscountStale
		}, 1, 1},
		"no cell has counted": {nil, func(*v1alpha1.PodProtector) {}, 0, 0},
	} {
		t.Run(claim, func(t *testing.T) {
			p := spread(protector(1, c.counted...), zone)
			c.place(p)
			if least, most := quota.DomainsOf(p); least != c.least || most != c.most {
				t.Errorf("DomainsOf() = %d, %d, want %d, %d", least, most, c.least, c.most)
			}
		})
	}
	if least, most := quota.DomainsOf(protector(1, 3)); least+most > 0 {
		t.Errorf("DomainsOf() without spec.spread = %d, %d, want 0, 0", least, most)
	}
}

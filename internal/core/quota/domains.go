package quota

import (
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// DomainsOf returns bounds for the number of domains that have pods of a protector with spec.spread. The minimum assumes that domains
// that cells do not count separately are the same in several cells. The maximum assumes that they differ, and that each pod whose
// domain is unknown is alone in one.
func DomainsOf(p *v1alpha1.PodProtector) (least, most int) {
	distribution, ok := DistributionOf(p)
	if !ok {
		return 0, 0
	}
	least = len(distribution.Domains)
	most = least + int(distribution.Others.Domains) + distribution.Unknown
	spec := CountedSpec(&p.Spec)
	for i := range p.Status.Cells {
		if cell := &p.Status.Cells[i]; cell.Discount == "" {
			placed := placementIn(p, cell, spec)
			least = max(least, len(placed.domains)+int(placed.others.Domains))
		}
	}
	return least, most
}

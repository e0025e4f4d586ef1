package quota

import (
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// DomainsOf is how many domains have pods of a protector with spec.spread: at least, since those that cells do not count one by one
// may be the same in several cells, and at most, since they need not be, and each pod whose domain is not known may be alone in one.
func DomainsOf(p *v1alpha1.PodProtector) (least, most int) {
	shares, ok := SharesOf(p)
	if !ok {
		return 0, 0
	}
	least = len(shares.Domains)
	most = least + int(shares.Others.Domains) + shares.Unknown
	spec := CountedSpec(&p.Spec)
	for i := range p.Status.Cells {
		if cell := &p.Status.Cells[i]; cell.Discount == "" {
			placed := placementIn(p, cell, spec)
			least = max(least, len(placed.domains)+int(placed.others.Domains))
		}
	}
	return least, most
}

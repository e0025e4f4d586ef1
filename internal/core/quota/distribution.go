package quota

import (
	"maps"
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Distribution describes how the pods that count towards the floor are distributed over the domains of spec.spread, over all cells. Like
// the number of available pods, it ignores reservations and excludes discounted cells.
type Distribution struct {
	TopologyKey string
	// Domains are the domains that have pods and that at least one cell counts separately, sorted by name.
	Domains []DomainShare
	// Others adds up the domains that cells do not count separately. Some may be the same in several cells, or be one of Domains. The
	// number of domains and the size of the largest are therefore upper bounds.
	Others v1alpha1.OtherDomains
	// Unknown is the number of pods whose domain is unknown.
	Unknown int
	// Total is the number of all pods, including Unknown.
	Total int
	// Floor is the floor of the protector. It is valid if FloorKnown is set.
	Floor      int
	FloorKnown bool
}

// DomainShare is the known pods of one domain.
type DomainShare struct {
	Name string
	// Counted is the number of pods that are counted in the domain. AtMost includes pods that may be there in cells that do not count
	// the domain separately.
	Counted, AtMost int
}

// DistributionOf adds up the cells of a protector. ok is false if its spec has no spread.
func DistributionOf(p *v1alpha1.PodProtector) (distribution Distribution, ok bool) {
	if p.Spec.Spread == nil {
		return Distribution{}, false
	}
	distribution.TopologyKey = p.Spec.Spread.TopologyKey
	distribution.Floor, distribution.FloorKnown = Floor(p)
	var cells []placement
	names := map[string]bool{}
	spec := CountedSpec(&p.Spec)
	for i := range p.Status.Cells {
		if p.Status.Cells[i].Discount != "" {
			continue
		}
		cell := placementIn(p, &p.Status.Cells[i], spec)
		for name := range cell.domains {
			names[name] = true
		}
		distribution.Total += cell.known + cell.unknown
		distribution.Unknown += cell.unknown
		distribution.Others.Domains += cell.others.Domains
		distribution.Others.Counted += cell.others.Counted
		distribution.Others.Largest += cell.others.Largest
		cells = append(cells, cell)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		share := DomainShare{Name: name}
		for _, cell := range cells {
			share.Counted += cell.domains[name]
			share.AtMost += cell.atMost(name)
		}
		distribution.Domains = append(distribution.Domains, share)
	}
	return distribution, true
}

// Largest returns the domain with the most counted pods, the first by name of several. ok is false if no known domain has pods.
func (s Distribution) Largest() (largest DomainShare, ok bool) {
	for _, share := range s.Domains {
		if !ok || share.Counted > largest.Counted {
			largest, ok = share, true
		}
	}
	return largest, ok
}

// AfterLoss returns bounds for the number of pods that remain after the loss of the domain whose loss costs most. The minimum assumes
// that no pod with an unknown domain remains, and the maximum that all of them do.
func (s Distribution) AfterLoss() (least, most int) {
	counted, _ := s.Largest()
	return s.Total - s.Unknown - s.LargestAtMost(), s.Total - counted.Counted
}

// LargestAtMost returns the maximum number of pods that one domain may have, among those whose domain is known.
func (s Distribution) LargestAtMost() int {
	most := int(s.Others.Largest)
	for _, share := range s.Domains {
		most = max(most, share.AtMost)
	}
	return most
}

// placement is the distribution of the counted pods of one cell.
type placement struct {
	// domains are the domains that the cell counts separately, and others is the rest of the known ones.
	domains map[string]int
	others  v1alpha1.OtherDomains
	// known is the number of pods of both, and unknown the number of pods whose domain is unknown.
	known, unknown int
}

// placementIn returns the placement in a cell, as it was counted. Counts by another spec are ignored. Counts by another topologyKey
// do not show the pods' domains.
func placementIn(p *v1alpha1.PodProtector, cell *v1alpha1.PodProtectorCell, countedSpec string) placement {
	if cell.Aggregation.CountedSpec != countedSpec {
		return placement{}
	}
	total, key, by := int(cell.Aggregation.CountedReplicas), p.Spec.Spread.TopologyKey, cell.Aggregation.Spread
	switch {
	case key == v1alpha1.TopologyKeyCell && total > 0:
		return placement{domains: map[string]int{cell.CellID: total}, known: total}
	case by == nil || by.TopologyKey != key:
		return placement{unknown: total}
	}
	placed := placement{domains: make(map[string]int, len(by.Domains))}
	for _, domain := range by.Domains {
		if domain.Counted > 0 {
			placed.domains[domain.Name] += int(domain.Counted)
			placed.known += int(domain.Counted)
		}
	}
	if by.Others != nil {
		placed.others = *by.Others
		placed.known += int(by.Others.Counted)
	}
	placed.known = min(placed.known, total)
	placed.unknown = total - placed.known
	return placed
}

// atMost returns the maximum number of pods of the cell in a domain, among those whose domain is known.
func (c *placement) atMost(domain string) int {
	if counted, listed := c.domains[domain]; listed {
		return counted
	}
	return int(c.others.Largest)
}

package quota

import (
	"maps"
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Shares are how the pods that count towards the floor are shared out among the domains of spec.spread, over all cells. Like the
// number of available pods they leave out what is reserved, and cells that are discounted.
type Shares struct {
	TopologyKey string
	// Domains are those that have pods and that some cell counts one by one, by name.
	Domains []Share
	// Others adds up those that cells do not count one by one. Some may be the same in several cells, or one of Domains: that there
	// are so many, and that one has Largest pods, is the most that can be.
	Others v1alpha1.OtherDomains
	// Unknown is how many pods are in no domain that is known.
	Unknown int
	// Total is the number of all pods, those included.
	Total int
	// Floor is that of the protector, while FloorKnown.
	Floor      int
	FloorKnown bool
}

// Share is the pods of one domain that are known to be there.
type Share struct {
	Name string
	// Counted is the number of pods that are counted there, and AtMost includes those that may be there since a cell does not
	// count the domain by itself.
	Counted, AtMost int
}

// SharesOf adds up the cells of a protector; ok is false when its spec says nothing about domains.
func SharesOf(p *v1alpha1.PodProtector) (shares Shares, ok bool) {
	if p.Spec.Spread == nil {
		return Shares{}, false
	}
	shares.TopologyKey = p.Spec.Spread.TopologyKey
	shares.Floor, shares.FloorKnown = Floor(p)
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
		shares.Total += cell.known + cell.unknown
		shares.Unknown += cell.unknown
		shares.Others.Domains += cell.others.Domains
		shares.Others.Counted += cell.others.Counted
		shares.Others.Largest += cell.others.Largest
		cells = append(cells, cell)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		share := Share{Name: name}
		for _, cell := range cells {
			share.Counted += cell.domains[name]
			share.AtMost += cell.atMost(name)
		}
		shares.Domains = append(shares.Domains, share)
	}
	return shares, true
}

// Largest is the domain in which most pods are counted, the first by name of several; ok is false when no domain is known that
// has pods.
func (s Shares) Largest() (largest Share, ok bool) {
	for _, share := range s.Domains {
		if !ok || share.Counted > largest.Counted {
			largest, ok = share, true
		}
	}
	return largest, ok
}

// AfterLoss is how many pods are left if the domain is lost whose loss costs most: at least, since none may be left of those whose
// domain is not known, and at most, since all of them may.
func (s Shares) AfterLoss() (least, most int) {
	counted, _ := s.Largest()
	return s.Total - s.Unknown - s.LargestAtMost(), s.Total - counted.Counted
}

// LargestAtMost is how many pods one domain may have, of those whose domain is known.
func (s Shares) LargestAtMost() int {
	most := int(s.Others.Largest)
	for _, share := range s.Domains {
		most = max(most, share.AtMost)
	}
	return most
}

// placement is how the pods of one cell that count are shared out.
type placement struct {
	// domains are those that are counted one by one, and others the rest of those that are known.
	domains map[string]int
	others  v1alpha1.OtherDomains
	// known are the pods of both, unknown those whose domain nobody knows.
	known, unknown int
}

// placementIn is that of a cell, as it was counted. Counts by another spec are worth nothing, and those by another key do not say
// where the pods are.
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

// atMost is how many pods of the cell may be in a domain, of those whose domain is known.
func (c *placement) atMost(domain string) int {
	if counted, listed := c.domains[domain]; listed {
		return counted
	}
	return int(c.others.Largest)
}

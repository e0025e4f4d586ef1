package quota

import (
	"maps"
	"math"
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// With spec.spread.tolerateDomainLoss, no removal may leave fewer pods than the floor if any one domain is lost after it. The pod's
// own domain is excepted, because the removal takes no pod from the others. With K_c the pods of cell c in known domains and A_cD
// those in domain D, the number of pods that certainly remain is
//
//	rest(D) = Σ max(0, K_c − A_cD − |H_c|)
//
// The domains of reserved pods are unknown. All reserved pods are assumed to be outside D, as far as there are pods. That is strict,
// and settlement soon ends it. The location of pods with an unknown domain is unknown too: all of them may be in D, or in a domain
// that has no other pods. If the cells are the domains, none of this is uncertain.

// Domain is the value of a topology label of a pod's node. A protector with another topologyKey treats it as unknown. The zero value
// is unknown to every protector.
type Domain struct {
	TopologyKey string
	Name        string
}

// DomainLoss describes a domain whose loss is the reason to deny a removal.
type DomainLoss struct {
	// TopologyKey is the topologyKey of the protector.
	TopologyKey string
	Kind        DomainKind
	// Name is the name of a DomainNamed domain. It may be empty.
	Name string
	// Pods is the number of pods that may be in the domain. Left is the number that certainly remain without these pods and the removed
	// pod.
	Pods, Left int
	// Unknown is the number of pods whose domain is unknown.
	Unknown int
	// PodUnknown reports that the domain of the pod itself is unknown.
	PodUnknown bool
}

// DomainKind describes how much is known about a domain.
type DomainKind string

// The kinds of domains.
const (
	// DomainNamed is a domain that at least one cell counts separately.
	DomainNamed DomainKind = "Named"
	// DomainOther is one of the domains that cells count together, because there are too many.
	DomainOther DomainKind = "Other"
	// DomainUnknown is an assumed domain of the pods whose domain is unknown.
	DomainUnknown DomainKind = "Unknown"
)

// domainLosses computes the pods that remain after the loss of each domain, for a sequence of removals. It is nil for a protector
// that need not tolerate a domain loss.
type domainLosses struct {
	key   string
	floor int
	// domains are the domains that may be lost: the named ones in order, then one for the others, then one for unknown pods.
	domains []possibleLoss
	index   map[string]int
	cells   map[string]*cellLosses
}

// possibleLoss is a domain, and the number of pods that remain without it in all cells that are not discounted.
type possibleLoss struct {
	kind       DomainKind
	name       string
	pods, left int
}

// cellLosses is one cell: its pods in known domains, how many of them may be in each domain, and its open reservations.
type cellLosses struct {
	placement
	perDomain []int
	open      int
	// discounted reports that nothing relies on the pods of the cell: because it is discounted, or because it still decides on a share, which knows
	// nothing of domains.
	discounted bool
}

// remaining returns the number of pods of the cell that certainly remain without a domain and without the given number of further pods.
func (c *cellLosses) remaining(domain, more int) int {
	return max(0, c.known-c.perDomain[domain]-c.open-more)
}

func domainLossesOf(p *v1alpha1.PodProtector, budget Budget) *domainLosses {
	if !toleratesDomainLoss(&p.Spec) || budget.FloorUnknown || budget.Floor <= 0 {
		return nil
	}
	l := &domainLosses{
		key: p.Spec.Spread.TopologyKey, floor: budget.Floor,
		index: map[string]int{}, cells: make(map[string]*cellLosses, len(p.Status.Cells)),
	}
	spec, others, unknown := CountedSpec(&p.Spec), false, 0
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		c := &cellLosses{placement: placementIn(p, cell, spec), open: reserved(cell), discounted: cell.Discount != "" || cell.Share != nil}
		for name := range c.domains {
			l.index[name] = 0
		}
		others = others || c.others.Largest > 0
		unknown += c.unknown
		l.cells[cell.CellID] = c
	}
	for _, name := range slices.Sorted(maps.Keys(l.index)) {
		l.index[name] = len(l.domains)
		l.domains = append(l.domains, possibleLoss{kind: DomainNamed, name: name})
	}
	if others {
		l.domains = append(l.domains, possibleLoss{kind: DomainOther})
	}
	if unknown > 0 {
		l.domains = append(l.domains, possibleLoss{kind: DomainUnknown, pods: unknown})
	}
	for _, c := range l.cells {
		l.add(c)
	}
	return l
}

// add computes and adds the contribution of a cell.
func (l *domainLosses) add(c *cellLosses) {
	c.perDomain = make([]int, len(l.domains))
	for i := range l.domains {
		switch d := &l.domains[i]; d.kind {
		case DomainNamed:
			c.perDomain[i] = c.atMost(d.name)
		case DomainOther:
			c.perDomain[i] = int(c.others.Largest)
		case DomainUnknown:
		}
		l.domains[i].pods += c.perDomain[i]
		if !c.discounted {
			l.domains[i].left += c.remaining(i, 0)
		}
	}
}

// domainOf returns the index of the domain of a removal's pod. It is -1 if the domain is unknown, or is not in l.domains. known reports
// whether the domain is known.
func (l *domainLosses) domainOf(r Removal) (domain int, known bool) {
	name := r.Domain.Name
	if l.key == v1alpha1.TopologyKeyCell {
		name = r.Cell
	} else if r.Domain.TopologyKey != l.key {
		return -1, false
	}
	if i, ok := l.index[name]; ok {
		return i, true
	}
	return -1, true
}

// denialReason returns the domain loss that would leave the fewest pods after one more removal, if that is fewer than the floor. It
// returns "" if there is none.
func (l *domainLosses) denialReason(r Removal) (Outcome, *DomainLoss) {
	if l == nil {
		return "", nil
	}
	cell := l.cells[r.Cell]
	ownDomain, known := l.domainOf(r)
	worst, least := -1, l.floor
	for i := range l.domains {
		if i == ownDomain {
			continue
		}
		left := l.domains[i].left + cell.remaining(i, 1)
		if !cell.discounted {
			left -= cell.remaining(i, 0)
		}
		if left < least {
			worst, least = i, left
		}
	}
	if worst < 0 {
		return "", nil
	}
	d := l.domains[worst]
	loss := &DomainLoss{TopologyKey: l.key, Kind: d.kind, Name: d.name, Pods: d.pods, Left: least, PodUnknown: !known}
	for _, c := range l.cells {
		loss.Unknown += c.unknown
	}
	return DeniedDomainLoss, loss
}

// charge records that a removal in a cell was reserved.
func (l *domainLosses) charge(cellID string) {
	if l == nil {
		return
	}
	cell := l.cells[cellID]
	for i := range l.domains {
		if !cell.discounted {
			l.domains[i].left += cell.remaining(i, 1) - cell.remaining(i, 0)
		}
	}
	cell.open++
}

// allowed returns how many removals would be admitted now among the pods of one domain in one cell, for the best such choice. The number
// may be higher for removals in several domains by turns.
func (l *domainLosses) allowed() int {
	if l == nil {
		return math.MaxInt
	}
	best := 0
	for _, cell := range l.cells {
		if cell.discounted {
			continue
		}
		first, second, at := l.bounds(cell)
		best = max(best, min(first, max(cell.unknown, int(cell.others.Counted))))
		for name, pods := range cell.domains {
			bound := first
			if l.index[name] == at {
				bound = second
			}
			best = max(best, min(bound, pods))
		}
	}
	return best
}

// bounds returns the number of removals in a cell that the most restrictive domain allows, the number that the next one allows, and
// the index of the former.
func (l *domainLosses) bounds(cell *cellLosses) (first, second, at int) {
	first, second, at = math.MaxInt, math.MaxInt, -1
	for i := range l.domains {
		if l.domains[i].left-cell.remaining(i, 0) >= l.floor {
			continue // the other cells satisfy the floor
		}
		switch bound := max(0, l.domains[i].left-l.floor); {
		case bound < first:
			first, second, at = bound, first, i
		case bound < second:
			second = bound
		}
	}
	return first, second, at
}

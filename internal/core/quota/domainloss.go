package quota

import (
	"maps"
	"math"
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// With spec.spread.tolerateDomainLoss no removal may leave fewer pods than the floor, should a domain be lost after it: any but that
// of the pod itself, which loses nothing by it that it had for the others. With K_c the pods of cell c in known domains and A_cD those
// in domain D, what is sure to be left is
//
//	rest(D) = Σ max(0, K_c − A_cD − |H_c|)
//
// Nobody knows in which domains the reserved pods are: they are taken for outside D as far as there are pods, which is strict, and
// soon settled. Nor does anybody know where the pods are whose domain is unknown: they may all be in D, or in one that has no other
// pods. Where cells are the domains nothing of this is in doubt.

// Domain is the value that a label of a pod's node has. It says nothing to a protector of another topologyKey; the zero value says
// nothing to anybody.
type Domain struct {
	TopologyKey string
	Name        string
}

// DomainLoss is a domain whose loss speaks against a removal.
type DomainLoss struct {
	// TopologyKey is that of the protector.
	TopologyKey string
	Kind        DomainKind
	// Name is that of a domain that is Named, which may be empty.
	Name string
	// Pods may be in the domain, and so many are sure to be left without them and the removal.
	Pods, Left int
	// Unknown is how many pods are in no domain that is known.
	Unknown int
	// PodUnknown tells that the domain of the pod itself is not known.
	PodUnknown bool
}

// DomainKind is how much is known of a domain.
type DomainKind string

// The kinds.
const (
	// DomainNamed is one that some cell counts by itself.
	DomainNamed DomainKind = "Named"
	// DomainOther is one of those that cells count together, since there are too many.
	DomainOther DomainKind = "Other"
	// DomainUnknown is whichever the pods are in whose domain is not known.
	DomainUnknown DomainKind = "Unknown"
)

// domainLosses reckon what losses of domains leave, for removals one after the other. nil is those of a protector that need not outlive any.
type domainLosses struct {
	key   string
	floor int
	// domains are those that may be lost: the named ones in order, then one of the others, then that of unknown pods.
	domains []lost
	index   map[string]int
	cells   map[string]*cellLosses
}

// lost is a domain, and what is left over all cells without it, but for those that are discounted.
type lost struct {
	kind       DomainKind
	name       string
	pods, left int
}

// cellLosses is one cell: its pods in known domains, how many of them each of the domains may have, and what is reserved.
type cellLosses struct {
	placement
	in         []int
	open       int
	discounted bool
}

// stay is how many pods of the cell are sure to be left without a domain, and without so many more.
func (c *cellLosses) stay(domain, more int) int {
	return max(0, c.known-c.in[domain]-c.open-more)
}

func domainLossesOf(p *v1alpha1.PodProtector, budget Budget) *domainLosses {
	if p.Spec.Spread == nil || !p.Spec.Spread.TolerateDomainLoss || budget.FloorUnknown || budget.Floor <= 0 {
		return nil
	}
	l := &domainLosses{
		key: p.Spec.Spread.TopologyKey, floor: budget.Floor,
		index: map[string]int{}, cells: make(map[string]*cellLosses, len(p.Status.Cells)),
	}
	spec, others, unknown := CountedSpec(&p.Spec), false, 0
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		c := &cellLosses{placement: placementIn(p, cell, spec), open: Open(&cell.AdmissionHistory), discounted: cell.Discount != ""}
		for name := range c.domains {
			l.index[name] = 0
		}
		others = others || c.others.Largest > 0
		unknown += c.unknown
		l.cells[cell.CellID] = c
	}
	for _, name := range slices.Sorted(maps.Keys(l.index)) {
		l.index[name] = len(l.domains)
		l.domains = append(l.domains, lost{kind: DomainNamed, name: name})
	}
	if others {
		l.domains = append(l.domains, lost{kind: DomainOther})
	}
	if unknown > 0 {
		l.domains = append(l.domains, lost{kind: DomainUnknown, pods: unknown})
	}
	for _, c := range l.cells {
		l.add(c)
	}
	return l
}

// add finds out what a cell adds.
func (l *domainLosses) add(c *cellLosses) {
	c.in = make([]int, len(l.domains))
	for i := range l.domains {
		switch d := &l.domains[i]; d.kind {
		case DomainNamed:
			c.in[i] = c.atMost(d.name)
		case DomainOther:
			c.in[i] = int(c.others.Largest)
		case DomainUnknown:
		}
		l.domains[i].pods += c.in[i]
		if !c.discounted {
			l.domains[i].left += c.stay(i, 0)
		}
	}
}

// own is the domain of the pod of a removal; -1 when it is not known, or is none that may be lost with pods.
func (l *domainLosses) own(r Removal) (domain int, known bool) {
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

// objection is the loss that speaks most against one removal more; "" when none does.
func (l *domainLosses) objection(r Removal) (Outcome, *DomainLoss) {
	if l == nil {
		return "", nil
	}
	cell := l.cells[r.Cell]
	own, known := l.own(r)
	worst, least := -1, l.floor
	for i := range l.domains {
		if i == own {
			continue
		}
		left := l.domains[i].left + cell.stay(i, 1)
		if !cell.discounted {
			left -= cell.stay(i, 0)
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
	return RefusedDomainLoss, loss
}

// charge notes that a removal in a cell was reserved.
func (l *domainLosses) charge(cellID string) {
	if l == nil {
		return
	}
	cell := l.cells[cellID]
	for i := range l.domains {
		if !cell.discounted {
			l.domains[i].left += cell.stay(i, 1) - cell.stay(i, 0)
		}
	}
	cell.open++
}

// most is how many removals would be admitted now of the pods that one domain has in one cell, whichever is the best. Of several
// domains in turn it may be more.
func (l *domainLosses) most() int {
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

// bounds are how many removals in a cell the domain allows at whose loss fewest are left over, and the next one.
func (l *domainLosses) bounds(cell *cellLosses) (first, second, at int) {
	first, second, at = math.MaxInt, math.MaxInt, -1
	for i := range l.domains {
		if l.domains[i].left-cell.stay(i, 0) >= l.floor {
			continue // the other cells are enough
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

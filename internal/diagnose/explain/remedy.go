package explain

import (
	"fmt"
	"sort"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// computeNeeds finds how many more pods, or which floor, would admit the removal. It repeats the decision with changed values.
func (s Situation) computeNeeds(c removal.Charge, attempt quota.Removal, verdict quota.Verdict, p *Protector) {
	switch verdict.Outcome {
	case quota.DeniedNoBudget, quota.DeniedDomainLoss:
	default:
		return
	}
	// A removal that a floor admits is also admitted with a lower floor, and with more pods.
	floor := verdict.Budget.Floor - 1 - sort.Search(verdict.Budget.Floor, func(lower int) bool {
		return withFloor(c, verdict.Budget.Floor-1-lower).Decide(attempt).Outcome.Admitted()
	})
	if floor >= 0 && p.Share == nil { // only Breakwater lowers shares
		p.FloorThatWouldDo = &floor
	}
	most := verdict.Budget.Floor + verdict.Budget.Reserved + 1
	more := 1 + sort.Search(most, func(fewer int) bool {
		raised, counted := withMore(c, s.Cell, fewer+1)
		return counted && raised.Decide(attempt).Outcome != quota.DeniedNoBudget
	})
	if verdict.Outcome == quota.DeniedNoBudget && more <= most {
		p.MoreAvailable = &more
	}
}

// withFloor returns a copy of the charge whose protector has another floor.
func withFloor(c removal.Charge, floor int) removal.Charge {
	c.Protector = c.Protector.DeepCopy()
	c.Protector.Spec.MaxUnavailable, c.Protector.Spec.MinAvailable = nil, v1alpha1.Pods(int32(floor))
	return c
}

// withMore returns a copy of the charge whose protector counts more pods in a cell.
func withMore(c removal.Charge, cellID string, more int) (removal.Charge, bool) {
	c.Protector = c.Protector.DeepCopy()
	cell := quota.CellOf(c.Protector, cellID)
	if cell == nil {
		return c, false
	}
	cell.Aggregation.CountedReplicas += int32(more)
	return c, true
}

// remedies describes changes that would admit the removal. All protectors that deny it must be satisfied.
func (s Situation) remedies(protectors []Protector) (all []string) {
	denying := 0
	for _, p := range protectors {
		if p.Denies != "" {
			denying++
		}
	}
	if denying > 1 {
		all = append(all, fmt.Sprintf("%d protectors deny the removal, and all of them must admit it:", denying))
	}
	for _, p := range protectors {
		if p.Denies == "" {
			continue
		}
		name := p.Namespace + "/" + p.Name
		if n := p.MoreAvailable; n != nil {
			all = append(all, fmt.Sprintf("%s: %s more available", name, printable.Count(*n, "pod")))
		}
		if f := p.FloorThatWouldDo; f != nil {
			all = append(all, fmt.Sprintf("%s: a floor of %d (now %d)", name, *f, p.Floor))
		}
		if p.Share != nil && p.Outcome == quota.DeniedNoBudget {
			all = append(all, p.Share.remedy(name))
		}
		if l := p.Loss; l != nil {
			all = append(all, fmt.Sprintf("%s: at least %s more available that survive the domain loss", name, printable.Count(p.Floor-l.Left, "pod")))
		}
		if p.Outcome == quota.DeniedFull {
			less := fmt.Sprintf("fewer than %d removals", p.AtMostUnderWay)
			if p.AtMostUnderWay == 1 {
				less = "no removal"
			}
			all = append(all, fmt.Sprintf("%s: %s under way (now %d)", name, less, p.UnderWay))
		}
		for _, c := range p.Cells {
			if c.Discount == v1alpha1.DiscountStale && c.Counted > 0 && c.Name != s.Cell {
				all = append(all, fmt.Sprintf("%s: a report from the aggregator of cell %s: until then its pods (%s) do not count", name, c.Name, printable.Count(c.Counted, "pod")))
			}
		}
		if p.SettledBy != nil && p.UnderWay > 0 {
			all = append(all, fmt.Sprintf("%s: settlement of %s under way, at about %s at the latest (a pod that is still alive then counts again)",
				name, formatRemovals(p.UnderWay), p.SettledBy.UTC().Format(time.TimeOnly+"Z")))
		}
		if p.DecreasePending != nil || p.MoreAvailable == nil && p.FloorThatWouldDo == nil && p.Outcome != quota.DeniedFull {
			all = append(all, name+": "+p.advice)
		}
	}
	if s.Request.Operation == v1alpha1.OperationDelete || s.Request.Operation == v1alpha1.OperationEvict {
		all = append(all, "in an emergency: "+removal.ForceCommand(s.Request))
	}
	return all
}

func formatRemovals(n int) string {
	if n == 1 {
		return "the removal"
	}
	return fmt.Sprintf("%d removals", n)
}

package quota

import (
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Summarize computes the informational fields of the status from the cells. A component that writes a status calls it last, so that
// these fields are consistent with the cells.
func Summarize(p *v1alpha1.PodProtector) {
	budget := BudgetOf(p)
	p.Status.ObservedGeneration = p.Generation
	p.Status.DesiredAvailable = Saturate(budget.Floor)
	p.Status.DisruptionsAllowed = Saturate(allowed(p, budget))
	p.Status.ExpectedReplicas = nil
	if expected, known := Expected(p); known {
		number := Saturate(expected)
		p.Status.ExpectedReplicas = &number
	}
	summary, counted := &p.Status.Summary, CountedSpec(&p.Spec)
	pods := countedPods(p, counted)
	*summary = v1alpha1.Summary{Available: Saturate(pods), Reserved: Saturate(budget.Reserved), EstimatedAvailable: Saturate(pods - budget.Reserved)}
	if p.Spec.ShareOf != nil && budget.Left() > 0 {
		p.Status.Wanted = 0
	}
	for i := range p.Status.Cells {
		if a := &p.Status.Cells[i].Aggregation; a.CountedSpec == counted {
			summary.Total = AddSaturating(summary.Total, a.TotalReplicas)
			summary.Ready = AddSaturating(summary.Ready, a.ReadyReplicas)
			summary.Running = AddSaturating(summary.Running, a.RunningReplicas)
			summary.Scheduled = AddSaturating(summary.Scheduled, a.ScheduledReplicas)
		}
	}
}

// IsSatisfied reports whether as many pods as the floor are left without the reserved ones. It is false while the floor is unknown, or counts
// are void. It does not consider the loss of a domain.
func IsSatisfied(p *v1alpha1.PodProtector) bool {
	budget := BudgetOf(p)
	return !budget.FloorUnknown && !needsRecount(p) && budget.Left() >= 0
}

// Allowed returns the number of removals that Decide would admit now; see allowed.
func Allowed(p *v1alpha1.PodProtector) int { return allowed(p, BudgetOf(p)) }

// allowed returns the number of removals that Decide would admit now. For a protector that must tolerate a domain loss, it is the
// number for the pods of one domain in one cell, for the best such choice. It is 0 if no counted pod could be removed.
func allowed(p *v1alpha1.PodProtector, budget Budget) int {
	if budget.FloorUnknown || deniesUntilRecount(p, budget) {
		return 0
	}
	byShares := allowedByShares(p)
	if byShares > 0 && !slices.ContainsFunc(p.Status.Cells, func(c v1alpha1.PodProtectorCell) bool { return c.Share == nil }) {
		return byShares
	}
	allowed := min(budget.Left(), domainLossesOf(p, budget).allowed())
	if limit := int(p.Spec.AdmissionHistory.MaxConcurrentLag); limit > 0 {
		allowed = min(allowed, limit-budget.Reserved)
	}
	return max(allowed, 0) + byShares
}

// Available returns the number of available pods in the cells that are not discounted. Those of a cell with a share all count, although a
// removal elsewhere can rely only on the share.
func Available(p *v1alpha1.PodProtector) int { return countedPods(p, CountedSpec(&p.Spec)) }

// countedPods returns the number of available pods in the cells that are not discounted, whether they have a share or not.
func countedPods(p *v1alpha1.PodProtector, counted string) (pods int) {
	for i := range p.Status.Cells {
		if cell := &p.Status.Cells[i]; cell.Aggregation.CountedSpec == counted {
			pods += int(cell.Aggregation.CountedReplicas) - discounted(cell, counted)
		}
	}
	return pods
}

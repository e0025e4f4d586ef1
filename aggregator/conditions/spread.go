package conditions

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// setSpreadCondition writes how the pods are distributed, if the spec has a spread. It uses the counted pods: a pod whose removal is
// reserved still exists, and counts until the snapshot shows its end.
func setSpreadCondition(p *v1alpha1.PodProtector) {
	shares, hasSpread := quota.DistributionOf(p)
	if !hasSpread {
		p.Status.Spread = nil
		meta.RemoveStatusCondition(&p.Status.Conditions, v1alpha1.ConditionSpreadSatisfied)
		return
	}
	p.Status.Spread = spreadStatus(&shares)
	satisfied := spreadSatisfiedCondition(p, &shares)
	satisfied.Type, satisfied.ObservedGeneration = v1alpha1.ConditionSpreadSatisfied, p.Generation
	meta.SetStatusCondition(&p.Status.Conditions, satisfied)
}

func spreadStatus(shares *quota.Distribution) *v1alpha1.SpreadStatus {
	largest, _ := shares.Largest()
	least, _ := shares.AfterLoss()
	return &v1alpha1.SpreadStatus{
		TopologyKey: shares.TopologyKey, Domains: quota.Saturate(len(shares.Domains) + int(shares.Others.Domains)),
		Largest: largest.Name, LargestCounted: quota.Saturate(largest.Counted), LargestSharePercent: quota.Saturate(percent(largest.Counted, shares.Total)),
		Unknown: quota.Saturate(shares.Unknown), AvailableAfterLoss: quota.Saturate(max(least, 0)),
	}
}

// percent returns a share of a whole in percent, rounded up.
func percent(of, whole int) int {
	if whole == 0 {
		return 0
	}
	return (100*of + whole - 1) / whole
}

// spreadSatisfiedCondition returns whether the pods are distributed as the spec requires.
func spreadSatisfiedCondition(p *v1alpha1.PodProtector, shares *quota.Distribution) metav1.Condition {
	missing := uncounted(p)
	if len(missing) > 0 {
		return metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonDomainsUnknown,
			Message: clusters.Truncate("The domains of some pods are unknown: "+strings.Join(missing, "; ")+".", maxMessageBytes),
		}
	}
	if isScaledToZero(p, shares) {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSpread, Message: "There are no pods, and none are expected."}
	}
	var certain, doubtful []spreadViolation
	for _, found := range []*spreadViolation{shareTooLarge(p, shares), tooFewDomains(p, shares), lossBreaksFloor(p, shares)} {
		switch {
		case found == nil:
		case found.isCertain:
			certain = append(certain, *found)
		default:
			doubtful = append(doubtful, *found)
		}
	}
	switch {
	case len(certain) > 0:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: certain[0].reason, Message: joinMessages(certain, podsWithoutDomain(p))}
	case len(doubtful) > 0:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonDomainsUnknown, Message: joinMessages(doubtful, podsWithoutDomain(p))}
	}
	largest, _ := shares.Largest()
	text := fmt.Sprintf("%s in %s; %q has the most, %d (%d%%).", printable.Count(shares.Total-shares.Unknown, "pod"),
		printable.Count(len(shares.Domains)+int(shares.Others.Domains), "domain"), largest.Name, largest.Counted, percent(largest.Counted, shares.Total))
	if len(shares.Domains) == 0 {
		text = fmt.Sprintf("No pod is in a known domain (%s in all), and spec.spread does not require it.", printable.Count(shares.Total, "pod"))
	}
	return metav1.Condition{
		Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSpread,
		Message: clusters.Truncate(strings.Join(append([]string{text}, podsWithoutDomain(p)...), " "), maxMessageBytes),
	}
}

// maxMessageBytes is the maximum length of a condition's message, in bytes.
const maxMessageBytes = 1024

// joinMessages joins the problems, and the reasons why pods have no known domain, into a message.
func joinMessages(violations []spreadViolation, withoutDomain []string) string {
	var all []string
	for _, d := range violations {
		all = append(all, d.message)
	}
	return clusters.Truncate(strings.Join(append(all, withoutDomain...), " "), maxMessageBytes)
}

// isScaledToZero reports whether an application is scaled to zero.
func isScaledToZero(p *v1alpha1.PodProtector, shares *quota.Distribution) bool {
	expected, known := quota.Expected(p)
	return shares.Total == 0 && (shares.FloorKnown && shares.Floor == 0 || known && expected == 0)
}

// uncounted returns the cells that have not counted the pods of the spec, among those whose pods are to count.
func uncounted(p *v1alpha1.PodProtector) []string {
	counted, cells := quota.CountedSpec(&p.Spec), 0
	var missing []string
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		switch {
		case cell.Discount == v1alpha1.DiscountStale, cell.Discount == v1alpha1.DiscountDraining:
		case cell.Aggregation.Void:
			missing = append(missing, fmt.Sprintf("cell %s is counted again because this PodProtector or its core cluster was restored", cell.CellID))
		case cell.Aggregation.CountedSpec != counted:
			missing = append(missing, fmt.Sprintf("cell %s has not counted its pods for this spec", cell.CellID))
		default:
			cells++
		}
	}
	if cells == 0 && len(missing) == 0 {
		missing = append(missing, "no cell has counted its pods for this spec")
	}
	return missing
}

// podsWithoutDomain returns which pods have no known domain, and why.
func podsWithoutDomain(p *v1alpha1.PodProtector) (all []string) {
	key := p.Spec.Spread.TopologyKey
	if key == v1alpha1.TopologyKeyCell {
		return nil
	}
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		a := &cell.Aggregation
		switch {
		case cell.Discount != "" || a.CountedReplicas == 0:
		case a.Spread == nil || a.Spread.TopologyKey != key:
			all = append(all, fmt.Sprintf("Cell %s has not counted its %s by %s yet.", cell.CellID, printable.Count(int(a.CountedReplicas), "pod"), key))
		case a.Spread.Problem != "":
			all = append(all, fmt.Sprintf("Cell %s, with %s: %s.", cell.CellID, printable.Count(int(a.Spread.Unknown), "pod"), a.Spread.Problem))
		case a.Spread.Unknown > 0:
			all = append(all, fmt.Sprintf("In cell %s, the nodes of %s no longer exist or lack the label %s.",
				cell.CellID, printable.Count(int(a.Spread.Unknown), "pod"), key))
		}
	}
	return all
}

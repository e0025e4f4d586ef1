package aggregator

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/fleet"
	"github.com/breakwater-k8s/breakwater/internal/quota"
)

// concludeSpread writes how the pods are shared out, where the spec says how they are to be. It goes by the pods that are counted:
// what is reserved is still there, and goes on being so until it is seen to be gone.
func concludeSpread(p *v1alpha1.PodProtector) {
	shares, asked := quota.SharesOf(p)
	if !asked {
		p.Status.Spread = nil
		meta.RemoveStatusCondition(&p.Status.Conditions, v1alpha1.ConditionSpreadSatisfied)
		return
	}
	p.Status.Spread = spreadStatus(&shares)
	satisfied := spreadSatisfaction(p, &shares)
	satisfied.Type, satisfied.ObservedGeneration = v1alpha1.ConditionSpreadSatisfied, p.Generation
	meta.SetStatusCondition(&p.Status.Conditions, satisfied)
}

func spreadStatus(shares *quota.Shares) *v1alpha1.SpreadStatus {
	largest, _ := shares.Largest()
	least, _ := shares.AfterLoss()
	return &v1alpha1.SpreadStatus{
		TopologyKey: shares.TopologyKey, Domains: clamp(len(shares.Domains) + int(shares.Others.Domains)),
		Largest: largest.Name, LargestCounted: clamp(largest.Counted), LargestSharePercent: clamp(percent(largest.Counted, shares.Total)),
		Unknown: clamp(shares.Unknown), AvailableAfterLoss: clamp(max(least, 0)),
	}
}

// percent is a share of a whole, rounded up.
func percent(of, whole int) int {
	if whole == 0 {
		return 0
	}
	return (100*of + whole - 1) / whole
}

// mostOf is how many pods a share is that is given in percent, rounded up.
func mostOf(percent int32, whole int) int { return (int(percent)*whole + 99) / 100 }

// doubt is what is wrong with how pods are shared out. Unless it is certain, it depends on pods of which it is not known where they are.
type doubt struct {
	reason, message string
	certain         bool
}

// spreadSatisfaction says whether the pods are shared out as the spec asks.
func spreadSatisfaction(p *v1alpha1.PodProtector, shares *quota.Shares) metav1.Condition {
	missing := uncounted(p)
	if len(missing) > 0 {
		return metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonDomainsUnknown,
			Message: fleet.Shorten("It is not known where all pods are: "+strings.Join(missing, "; ")+".", longestMessage),
		}
	}
	if isNoneWanted(p, shares) {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSpread, Message: "There are no pods, and none are wanted."}
	}
	var certain, doubtful []doubt
	for _, found := range []*doubt{shareTooLarge(p, shares), tooFewDomains(p, shares), lossBreaksFloor(p, shares)} {
		switch {
		case found == nil:
		case found.certain:
			certain = append(certain, *found)
		default:
			doubtful = append(doubtful, *found)
		}
	}
	switch {
	case len(certain) > 0:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: certain[0].reason, Message: said(certain, nowhere(p))}
	case len(doubtful) > 0:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonDomainsUnknown, Message: said(doubtful, nowhere(p))}
	}
	largest, _ := shares.Largest()
	text := fmt.Sprintf("%d pods are in %d domains; %q has most, %d (%d%%).",
		shares.Total-shares.Unknown, len(shares.Domains)+int(shares.Others.Domains), largest.Name, largest.Counted, percent(largest.Counted, shares.Total))
	if len(shares.Domains) == 0 {
		text = fmt.Sprintf("Of %d pods none is in a domain that is known, which does not matter to what is asked.", shares.Total)
	}
	return metav1.Condition{
		Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSpread, Message: fleet.Shorten(strings.Join(append([]string{text}, nowhere(p)...), " "), longestMessage),
	}
}

// longestMessage is as much of a condition as is read, in bytes.
const longestMessage = 1024

// said puts together what is wrong, and why something is not known.
func said(doubts []doubt, nowhere []string) string {
	var all []string
	for _, d := range doubts {
		all = append(all, d.message)
	}
	return fleet.Shorten(strings.Join(append(all, nowhere...), " "), longestMessage)
}

// isNoneWanted tells whether an application is scaled to nothing.
func isNoneWanted(p *v1alpha1.PodProtector, shares *quota.Shares) bool {
	expected, known := quota.Expected(p)
	return shares.Total == 0 && (shares.FloorKnown && shares.Floor == 0 || known && expected == 0)
}

// uncounted says which cells have not counted the pods of the spec, of those whose pods are to count.
func uncounted(p *v1alpha1.PodProtector) []string {
	counted, cells := quota.CountedSpec(&p.Spec), 0
	var missing []string
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		switch {
		case cell.Discount == v1alpha1.DiscountStale, cell.Discount == v1alpha1.DiscountDraining:
		case cell.Aggregation.Void:
			missing = append(missing, fmt.Sprintf("cell %s is counted anew, since this PodProtector or its core cluster was restored", cell.CellID))
		case cell.Aggregation.CountedSpec != counted:
			missing = append(missing, fmt.Sprintf("cell %s has not counted its pods by this spec", cell.CellID))
		default:
			cells++
		}
	}
	if cells == 0 && len(missing) == 0 {
		missing = append(missing, "no cell has counted its pods by this spec")
	}
	return missing
}

// nowhere says of which pods it is not known where they are, and why.
func nowhere(p *v1alpha1.PodProtector) (all []string) {
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
			all = append(all, fmt.Sprintf("Cell %s has not counted its %d pods by %s yet.", cell.CellID, a.CountedReplicas, key))
		case a.Spread.Problem != "":
			all = append(all, fmt.Sprintf("Cell %s, with %d pods: %s.", cell.CellID, a.Spread.Unknown, a.Spread.Problem))
		case a.Spread.Unknown > 0:
			all = append(all, fmt.Sprintf("In cell %s %d pods are on nodes that are gone, or without the label %s.", cell.CellID, a.Spread.Unknown, key))
		}
	}
	return all
}

func shareTooLarge(p *v1alpha1.PodProtector, shares *quota.Shares) *doubt {
	asked := p.Spec.Spread.MaxSharePercent
	if asked == nil {
		return nil
	}
	allowed := mostOf(*asked, shares.Total)
	if largest, _ := shares.Largest(); largest.Counted > allowed {
		return &doubt{v1alpha1.ReasonShareTooLarge, fmt.Sprintf("%q has %d of %d pods (%d%%), and maxSharePercent %d allows %d. Nothing moves pods: %s.", largest.Name,
			largest.Counted, shares.Total, percent(largest.Counted, shares.Total), *asked, allowed, remedy(p, fmt.Sprintf("delete some in %q", largest.Name))), true}
	}
	if mayBe := largestAtMost(shares) + shares.Unknown; mayBe > allowed {
		return &doubt{v1alpha1.ReasonShareTooLarge, fmt.Sprintf("A domain may have %d of %d pods, and maxSharePercent %d allows %d.", mayBe, shares.Total, *asked, allowed), false}
	}
	return nil
}

// largestAtMost is how many pods one domain may have, of those whose domain is known.
func largestAtMost(shares *quota.Shares) int {
	most := int(shares.Others.Largest)
	for _, share := range shares.Domains {
		most = max(most, share.AtMost)
	}
	return most
}

func tooFewDomains(p *v1alpha1.PodProtector, shares *quota.Shares) *doubt {
	if p.Spec.Spread.MinDomains == nil {
		return nil
	}
	asked := int(*p.Spec.Spread.MinDomains)
	switch least, most := quota.DomainsOf(p); {
	case most < asked && shares.Total < asked:
		return &doubt{v1alpha1.ReasonTooFewDomains, fmt.Sprintf("There are %d pods, too few for the %d domains that minDomains asks for.", shares.Total, asked), true}
	case most < asked:
		return &doubt{v1alpha1.ReasonTooFewDomains, fmt.Sprintf("%d pods are in %d domains (%s), and minDomains asks for %d. Nothing moves pods: %s.",
			shares.Total, len(shares.Domains), names(shares), asked, remedy(p, "delete some")), true}
	case least < asked:
		return &doubt{v1alpha1.ReasonTooFewDomains, fmt.Sprintf("From %d to %d domains may have pods, and minDomains asks for %d.", least, most, asked), false}
	}
	return nil
}

// mostNames is how many domains are named.
const mostNames = 8

func names(shares *quota.Shares) string {
	var all []string
	for _, share := range shares.Domains[:min(len(shares.Domains), mostNames)] {
		all = append(all, share.Name)
	}
	if len(shares.Domains) > mostNames {
		all = append(all, "...")
	}
	return strings.Join(all, ", ")
}

func lossBreaksFloor(p *v1alpha1.PodProtector, shares *quota.Shares) *doubt {
	if !p.Spec.Spread.TolerateDomainLoss {
		return nil
	}
	if !shares.FloorKnown {
		return &doubt{v1alpha1.ReasonDomainLossBreaks, "The floor is not known, which is to outlive the loss of any domain.", false}
	}
	if shares.Floor == 0 {
		return nil
	}
	largest, _ := shares.Largest()
	switch least, most := shares.AfterLoss(); {
	case most < shares.Floor:
		return &doubt{v1alpha1.ReasonDomainLossBreaks, fmt.Sprintf("If %q is lost, %d of %d pods are left, and the floor is %d. Until there are more "+
			"outside of it, none of those may go.", largest.Name, most, shares.Total, shares.Floor), true}
	case least < shares.Floor:
		return &doubt{v1alpha1.ReasonDomainLossBreaks, fmt.Sprintf("If a domain is lost, it may be that only %d of %d pods are left, and the floor is %d.",
			max(least, 0), shares.Total, shares.Floor), false}
	}
	return nil
}

// remedy says how pods come to be elsewhere. Which are replaced elsewhere depends on the key.
func remedy(p *v1alpha1.PodProtector, make string) string {
	switch {
	case p.Spec.Spread.TopologyKey == v1alpha1.TopologyKeyCell:
		return "scale the application up in other cells"
	case p.Spec.Spread.Enforcement == v1alpha1.SpreadSchedule:
		return make + ", one by one, and new ones are scheduled elsewhere"
	default:
		return make + ", one by one, when new ones are scheduled elsewhere, which enforcement Schedule sees to"
	}
}

package aggregator

import (
	"fmt"
	"strings"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// doubt is a violation of the required spread. Unless it is certain, it depends on pods with unknown domains.
type doubt struct {
	reason, message string
	certain         bool
}

// mostOf returns the number of pods that a share in percent allows, rounded up.
func mostOf(percent int32, whole int) int { return (int(percent)*whole + 99) / 100 }

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
	if mayBe := shares.LargestAtMost() + shares.Unknown; mayBe > allowed {
		return &doubt{v1alpha1.ReasonShareTooLarge, fmt.Sprintf("A domain may have %d of %d pods, and maxSharePercent %d allows %d.", mayBe, shares.Total, *asked, allowed), false}
	}
	return nil
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

// mostNames is the maximum number of domains that a message names.
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

// remedy returns how pods get into other domains. Which pods are replaced elsewhere depends on the key.
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

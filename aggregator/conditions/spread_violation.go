package conditions

import (
	"fmt"
	"strings"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// spreadViolation is a violation of the required spread. Unless it is certain, it depends on pods with unknown domains.
type spreadViolation struct {
	reason, message string
	isCertain       bool
}

// maxPodsOf returns the number of pods that a share in percent allows, rounded up.
func maxPodsOf(percent int32, whole int) int { return (int(percent)*whole + 99) / 100 }

func shareTooLarge(p *v1alpha1.PodProtector, shares *quota.Distribution) *spreadViolation {
	limit := p.Spec.Spread.MaxSharePercent
	if limit == nil {
		return nil
	}
	allowed := maxPodsOf(*limit, shares.Total)
	if largest, _ := shares.Largest(); largest.Counted > allowed {
		return &spreadViolation{v1alpha1.ReasonShareTooLarge, fmt.Sprintf("%q has %d of %d pods (%d%%), and maxSharePercent %d allows %d. "+
			"Breakwater does not move pods: %s.", largest.Name, largest.Counted, shares.Total,
			percent(largest.Counted, shares.Total), *limit, allowed, remedy(p, fmt.Sprintf("delete some in %q", largest.Name))), true}
	}
	if possible := shares.LargestAtMost() + shares.Unknown; possible > allowed {
		return &spreadViolation{v1alpha1.ReasonShareTooLarge, fmt.Sprintf("A domain may have %d of %d pods, and maxSharePercent %d allows %d.",
			possible, shares.Total, *limit, allowed), false}
	}
	return nil
}

func tooFewDomains(p *v1alpha1.PodProtector, shares *quota.Distribution) *spreadViolation {
	if p.Spec.Spread.MinDomains == nil {
		return nil
	}
	required := int(*p.Spec.Spread.MinDomains)
	switch least, most := quota.DomainsOf(p); {
	case most < required && shares.Total < required:
		return &spreadViolation{v1alpha1.ReasonTooFewDomains, fmt.Sprintf("It has %s, too few for the %s that minDomains requires.",
			printable.Count(shares.Total, "pod"), printable.Count(required, "domain")), true}
	case most < required:
		return &spreadViolation{v1alpha1.ReasonTooFewDomains, fmt.Sprintf("It has %s in %s (%s), and minDomains requires %d. Breakwater does not move pods: %s.",
			printable.Count(shares.Total, "pod"), printable.Count(len(shares.Domains), "domain"), domainNames(shares), required, remedy(p, "delete some")), true}
	case least < required:
		return &spreadViolation{v1alpha1.ReasonTooFewDomains, fmt.Sprintf("Between %d and %d domains have pods, and minDomains requires %d.", least, most, required), false}
	}
	return nil
}

// maxNames is the maximum number of domains that a message names.
const maxNames = 8

func domainNames(shares *quota.Distribution) string {
	var all []string
	for _, share := range shares.Domains[:min(len(shares.Domains), maxNames)] {
		all = append(all, share.Name)
	}
	if len(shares.Domains) > maxNames {
		all = append(all, "...")
	}
	return strings.Join(all, ", ")
}

func lossBreaksFloor(p *v1alpha1.PodProtector, shares *quota.Distribution) *spreadViolation {
	if !p.Spec.Spread.TolerateDomainLoss {
		return nil
	}
	if !shares.FloorKnown {
		return &spreadViolation{v1alpha1.ReasonDomainLossBreaks, "The floor is unknown, so the effect of a domain loss cannot be computed.", false}
	}
	if shares.Floor == 0 {
		return nil
	}
	largest, _ := shares.Largest()
	switch least, most := shares.AfterLoss(); {
	case most < shares.Floor:
		return &spreadViolation{v1alpha1.ReasonDomainLossBreaks, fmt.Sprintf("If %q is lost, %d of %d pods are left, and the floor is %d. The webhook denies "+
			"removals outside of it until more pods run there.", largest.Name, most, shares.Total, shares.Floor), true}
	case least < shares.Floor:
		return &spreadViolation{v1alpha1.ReasonDomainLossBreaks, fmt.Sprintf("If a domain is lost, possibly only %d of %d pods are left, and the floor is %d.",
			max(least, 0), shares.Total, shares.Floor), false}
	}
	return nil
}

// remedy returns how pods get into other domains. Which pods are replaced elsewhere depends on the key.
func remedy(p *v1alpha1.PodProtector, action string) string {
	switch {
	case p.Spec.Spread.TopologyKey == v1alpha1.TopologyKeyCell:
		return "scale the application up in other cells"
	case p.Spec.Spread.Enforcement == v1alpha1.SpreadSchedule:
		return action + ", one by one; new ones are scheduled elsewhere"
	default:
		return action + ", one by one, after you set enforcement Schedule, which makes new ones run elsewhere"
	}
}

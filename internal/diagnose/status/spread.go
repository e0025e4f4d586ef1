package status

import (
	"cmp"
	"fmt"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Spread is how the counted pods are distributed among domains, over all cells that are not discounted.
type Spread struct {
	TopologyKey string `json:"topologyKey"`
	Enforcement string `json:"enforcement"`
	// MaxSharePercent and MinDomains are the requested limits; 0 is no limit. TolerateDomainLoss denies removals after which too few
	// pods would survive the loss of one domain.
	MaxSharePercent    int  `json:"maxSharePercent,omitempty"`
	MinDomains         int  `json:"minDomains,omitempty"`
	TolerateDomainLoss bool `json:"tolerateDomainLoss"`
	// Domains are the individually counted domains, by name. OtherDomains and OtherPods are the sums of the rest. Unknown is the number
	// of pods without a known domain.
	Domains      []Domain `json:"domains,omitempty"`
	OtherDomains int      `json:"otherDomains,omitempty"`
	OtherPods    int      `json:"otherPods,omitempty"`
	Unknown      int      `json:"unknown,omitempty"`
	// LeftAfterLoss is the guaranteed number of remaining pods after the loss of the most expensive domain.
	LeftAfterLoss int `json:"leftAfterLoss"`
}

// Domain is the number of pods in one domain.
type Domain struct {
	Name string `json:"name"`
	Pods int    `json:"pods"`
}

// Limits describes the limits that the spec sets.
func (s *Spread) Limits() (all []string) {
	if s.MaxSharePercent > 0 {
		all = append(all, fmt.Sprintf("at most %d%% in one domain", s.MaxSharePercent))
	}
	if s.MinDomains > 0 {
		all = append(all, "at least "+printable.Count(s.MinDomains, "domain"))
	}
	if s.TolerateDomainLoss {
		all = append(all, "tolerates the loss of any domain")
	}
	return all
}

func spreadOf(p *v1alpha1.PodProtector) *Spread {
	shares, ok := quota.DistributionOf(p)
	if !ok {
		return nil
	}
	spec := p.Spec.Spread
	s := &Spread{
		TopologyKey: shares.TopologyKey, Enforcement: string(cmp.Or(spec.Enforcement, v1alpha1.SpreadAudit)), TolerateDomainLoss: spec.TolerateDomainLoss,
		OtherDomains: int(shares.Others.Domains), OtherPods: int(shares.Others.Counted), Unknown: shares.Unknown,
	}
	if spec.MaxSharePercent != nil {
		s.MaxSharePercent = int(*spec.MaxSharePercent)
	}
	if spec.MinDomains != nil {
		s.MinDomains = int(*spec.MinDomains)
	}
	for _, share := range shares.Domains {
		s.Domains = append(s.Domains, Domain{share.Name, share.Counted})
	}
	s.LeftAfterLoss, _ = shares.AfterLoss()
	return s
}

package model

import (
	"fmt"
	"strings"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/quota"
)

// Spread is how the pods of a protector are shared out among domains.
type Spread struct {
	TopologyKey string `json:"topologyKey"`
	// Asks is what the spec wants of that.
	Asks    string   `json:"asks"`
	Domains []Domain `json:"domains"`
	Others  int      `json:"others,omitempty"`
	Unknown int      `json:"unknown,omitempty"`
	// AfterLoss is how many pods are sure to be left when the domain is lost whose loss costs most.
	AfterLoss int `json:"afterLoss"`
}

// Domain is one domain and its share, in percent.
type Domain struct {
	Name    string `json:"name"`
	Pods    int    `json:"pods"`
	Percent int    `json:"percent"`
}

func spreadOf(p *v1alpha1.PodProtector) *Spread {
	shares, ok := quota.SharesOf(p)
	if !ok {
		return nil
	}
	s := &Spread{TopologyKey: shares.TopologyKey, Asks: asks(p.Spec.Spread), Others: int(shares.Others.Counted), Unknown: shares.Unknown}
	s.AfterLoss, _ = shares.AfterLoss()
	for _, d := range shares.Domains {
		s.Domains = append(s.Domains, Domain{Name: d.Name, Pods: d.Counted, Percent: percent(d.Counted, shares.Total)})
	}
	return s
}

func asks(s *v1alpha1.Spread) string {
	var all []string
	if s.MaxSharePercent != nil {
		all = append(all, fmt.Sprintf("at most %d %% of the pods in one domain", *s.MaxSharePercent))
	}
	if s.MinDomains != nil {
		all = append(all, fmt.Sprintf("at least %s", plural(int(*s.MinDomains), "domain")))
	}
	if s.TolerateDomainLoss {
		all = append(all, "the floor outlives the loss of any domain")
	}
	if len(all) == 0 {
		return "nothing is asked of the shares"
	}
	return strings.Join(all, "; ")
}

// percent is a share of a whole, rounded to the nearest.
func percent(part, whole int) int {
	if whole <= 0 {
		return 0
	}
	return (part*100 + whole/2) / whole
}

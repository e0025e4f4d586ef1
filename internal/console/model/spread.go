package model

import (
	"fmt"
	"strings"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// Spread is how the pods of a protector are distributed among domains.
type Spread struct {
	TopologyKey string `json:"topologyKey"`
	// Asks describes the distribution that the spec requests.
	Asks    string   `json:"asks"`
	Domains []Domain `json:"domains"`
	Others  int      `json:"others,omitempty"`
	Unknown int      `json:"unknown,omitempty"`
	// AfterLoss is the guaranteed number of remaining pods after the loss of the most expensive domain.
	AfterLoss int `json:"afterLoss"`
}

// Domain is one domain and its share in percent.
type Domain struct {
	Name    string `json:"name"`
	Pods    int    `json:"pods"`
	Percent int    `json:"percent"`
}

func spreadOf(v *status.Spread) *Spread {
	if v == nil {
		return nil
	}
	total := v.OtherPods + v.Unknown
	for _, d := range v.Domains {
		total += d.Pods
	}
	s := &Spread{TopologyKey: v.TopologyKey, Asks: spreadLimits(v), Others: v.OtherPods, Unknown: v.Unknown, AfterLoss: v.LeftAfterLoss}
	for _, d := range v.Domains {
		s.Domains = append(s.Domains, Domain{Name: d.Name, Pods: d.Pods, Percent: percent(d.Pods, total)})
	}
	return s
}

func spreadLimits(s *status.Spread) string {
	var all []string
	if s.MaxSharePercent > 0 {
		all = append(all, fmt.Sprintf("at most %d %% of the pods in one domain", s.MaxSharePercent))
	}
	if s.MinDomains > 0 {
		all = append(all, fmt.Sprintf("at least %s", printable.Count(s.MinDomains, "domain")))
	}
	if s.TolerateDomainLoss {
		all = append(all, "the floor holds after the loss of any domain")
	}
	if len(all) == 0 {
		return "the shares are not limited"
	}
	return strings.Join(all, "; ")
}

// percent returns part as a percentage of whole, rounded to the nearest integer.
func percent(part, whole int) int {
	if whole <= 0 {
		return 0
	}
	return (part*100 + whole/2) / whole
}

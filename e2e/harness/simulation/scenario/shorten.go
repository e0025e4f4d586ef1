package scenario

import (
	"slices"
)

// Shorten removes from a scenario what is not needed for its failure: steps, replicas, network faults. fails runs a scenario and reports
// whether it still fails.
func Shorten(s Scenario, fails func(Scenario) bool) Scenario {
	for again, tries := true, 0; again; {
		again = false
		for _, shorter := range s.reductions() {
			if tries++; tries > 400 {
				return s
			}
			if fails(shorter) {
				s, again = shorter, true
				break
			}
		}
	}
	return s
}

// reductions returns scenarios that are a little shorter than s, those with much less first.
func (s Scenario) reductions() []Scenario {
	var all []Scenario
	for size := len(s.Steps) / 2; size > 0; size /= 2 {
		for begin := 0; begin < len(s.Steps); begin += size {
			less := s
			less.Steps = append(append([]Step(nil), s.Steps[:begin]...), s.Steps[min(begin+size, len(s.Steps)):]...)
			all = append(all, less)
		}
	}
	add := func(differs bool, change func(*Scenario)) {
		if differs {
			less := s
			change(&less)
			all = append(all, less)
		}
	}
	add(s.Storm != Storm{}, func(s *Scenario) { s.Storm = Storm{} })
	add(s.Kept && !s.Shares, func(s *Scenario) { s.Kept = false })
	add(s.Shared && s.AggregatorsPerCell == 1, func(s *Scenario) { s.Shared = false })
	add(s.Generated, func(s *Scenario) { s.Generated = false })
	add(s.Scope.Lag > 0, func(s *Scenario) { s.Scope.Lag = 0 })
	add(len(s.Brake.Sources) > 1, func(s *Scenario) { s.Brake.Sources = s.Brake.Sources[:len(s.Brake.Sources)/2] })
	add(len(s.Brake.Sources) > 0, func(s *Scenario) { s.Brake.Sources = s.Brake.Sources[1:] })
	add(s.Topology.Runs, func(s *Scenario) { *s = s.withoutTopology() })
	add(s.Cores > 1, func(s *Scenario) { *s = s.withoutLastCore() })
	add(s.Webhooks > 1, func(s *Scenario) { s.Webhooks-- })
	add(s.AggregatorsPerCell > 1, func(s *Scenario) { s.AggregatorsPerCell-- })
	add(len(s.Protectors) > 1, func(s *Scenario) { s.Protectors = s.Protectors[1:] })
	add(len(s.Protectors) > 1, func(s *Scenario) { s.Protectors = s.Protectors[:1] })
	return all
}

// withoutLastCore returns the scenario without its last core. With shares, protectors of several cores have one name, so that the others cannot have
// those of the last one.
func (s Scenario) withoutLastCore() Scenario {
	s.Cores--
	if s.Shares {
		s.Protectors = slices.DeleteFunc(slices.Clone(s.Protectors), func(p ProtectorPlan) bool { return p.Core >= s.Cores })
	}
	return s
}

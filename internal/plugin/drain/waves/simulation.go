// Package waves predicts which of many removals are admitted, and in which order. It runs the code that decides each removal on copies
// of the protectors, and updates the copies after each one.
//
// It is pure: it does no I/O.
package waves

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// Pod is a pod to remove.
type Pod struct {
	Request removal.Request
	// Covering are the protectors that cover the pod. Belongs reports whether the pod belongs to the cell.
	Covering []removal.Charge
	Belongs  bool
	// HasReplacement reports whether the pod's controller creates a replacement. ReplacementTime is the time until the replacement is available.
	HasReplacement  bool
	ReplacementTime time.Duration
}

// Name returns namespace/name.
func (p Pod) Name() string { return p.Request.Namespace + "/" + p.Request.PodName }

// Simulation are the protectors of a cell's pods, updated after each simulated removal.
type Simulation struct {
	cell string
	now  time.Time
	// protectors is keyed by core/namespace/name.
	protectors map[string]*v1alpha1.PodProtector
	// charged holds the charges of each admitted pod that is not settled, by pod name.
	charged map[string][]removal.Charge
}

// NewSimulation copies the protectors of the pods. It does not modify the originals.
func NewSimulation(cell string, now time.Time, pods []Pod) *Simulation {
	s := &Simulation{cell: cell, now: now, protectors: map[string]*v1alpha1.PodProtector{}, charged: map[string][]removal.Charge{}}
	for _, pod := range pods {
		for _, c := range pod.Covering {
			if s.protectors[c.String()] == nil {
				s.protectors[c.String()] = c.Protector.DeepCopy()
			}
		}
	}
	return s
}

// covering returns the current state of the protectors that cover a pod.
func (s *Simulation) covering(p Pod) []removal.Charge {
	covering := slices.Clone(p.Covering)
	for i := range covering {
		covering[i].Protector = s.protectors[covering[i].String()]
	}
	return covering
}

// chargesFor returns the protectors that the removal of a pod consumes budget of.
func (s *Simulation) chargesFor(p Pod) []removal.Charge {
	covering := s.covering(p)
	removal.AssessAll(covering, s.cell, p.Request, s.now)
	charges, _ := removal.ChargesFor(covering, p.Belongs, p.Request)
	return charges
}

// Request requests the removal of a pod, and reserves it if it is admitted.
func (s *Simulation) Request(p Pod) removal.Answer {
	answer := removal.DecideDryRun(s.covering(p), p.Belongs, s.cell, p.Request, s.now)
	if !answer.Allowed || p.Request.IsAlwaysAllowed() {
		return answer
	}
	charges := s.chargesFor(p)
	for _, c := range charges {
		quota.Decide(c.Protector, []quota.Removal{c.AttemptFor(p.Request.Attempt(s.cell, s.now, ""))})
	}
	s.charged[p.Name()] = charges
	return answer
}

// Settle records that an admitted pod was deleted.
func (s *Simulation) Settle(p Pod) {
	facts := p.Request.Pod.Facts
	for _, c := range s.charged[p.Name()] {
		cell := quota.CellOf(c.Protector, s.cell)
		if cell == nil {
			continue
		}
		cell.AdmissionHistory.Buckets = slices.DeleteFunc(cell.AdmissionHistory.Buckets, func(bucket v1alpha1.Bucket) bool {
			return bucket.PodUID == p.Request.Pod.UID
		})
		if c.HealthAt(facts, s.cell, s.now).Counted(c.Protector.Spec.Criterion) {
			addCounted(cell, c.Domain.Name, -1)
		}
	}
}

// AddReplacement records that the replacement of a settled pod is available. Its domain is unknown.
func (s *Simulation) AddReplacement(p Pod) {
	for _, c := range s.charged[p.Name()] {
		if cell := quota.CellOf(c.Protector, s.cell); cell != nil {
			cell.Aggregation.CountedReplicas++
		}
	}
	delete(s.charged, p.Name())
}

// addCounted changes the number of counted pods of a cell, and of a domain if the cell counts that domain.
func addCounted(cell *v1alpha1.PodProtectorCell, domain string, by int32) {
	cell.Aggregation.CountedReplicas = max(0, cell.Aggregation.CountedReplicas+by)
	if cell.Aggregation.Spread == nil || domain == "" {
		return
	}
	for i := range cell.Aggregation.Spread.Domains {
		if d := &cell.Aggregation.Spread.Domains[i]; d.Name == domain {
			d.Counted = max(0, d.Counted+by)
		}
	}
}

// Package drain tells what would become of many removals, and in which order they pass: by the code that decides on each of them, on copies of
// the protectors that keep the books as if it were so.
//
// It is pure: values in, values out.
package drain

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// Pod is one that is to be removed.
type Pod struct {
	Request removal.Request
	// Covering are the protectors that cover it, and Belongs tells whether it belongs to the cell at all.
	Covering []removal.Charge
	Belongs  bool
	// Replaced tells that its controller makes another one when it is gone, which takes so long until it is available.
	Replaced bool
	Takes    time.Duration
}

// Name is namespace/name.
func (p Pod) Name() string { return p.Request.Namespace + "/" + p.Request.PodName }

// Books are protectors of a cell's pods as removals leave them.
type Books struct {
	cell string
	now  time.Time
	// protectors by core/namespace/name.
	protectors map[string]*v1alpha1.PodProtector
	// charged are those of the pods that are admitted and not settled.
	charged map[string][]removal.Charge
}

// Open makes books of the protectors of pods as they are at a time, which are left as they are.
func Open(cell string, now time.Time, pods []Pod) *Books {
	b := &Books{cell: cell, now: now, protectors: map[string]*v1alpha1.PodProtector{}, charged: map[string][]removal.Charge{}}
	for _, pod := range pods {
		for _, c := range pod.Covering {
			if b.protectors[c.String()] == nil {
				b.protectors[c.String()] = c.Protector.DeepCopy()
			}
		}
	}
	return b
}

// Protector is one of them as it is now; nil if it covers no pod.
func (b *Books) Protector(name string) *v1alpha1.PodProtector { return b.protectors[name] }

// covering are the protectors that cover a pod, as they are now.
func (b *Books) covering(p Pod) []removal.Charge {
	covering := slices.Clone(p.Covering)
	for i := range covering {
		covering[i].Protector = b.protectors[covering[i].String()]
	}
	return covering
}

// Ask asks for the removal of a pod, and reserves it if it may go.
func (b *Books) Ask(p Pod) removal.Answer {
	covering := b.covering(p)
	answer := removal.Judge(covering, p.Belongs, b.cell, p.Request, b.now)
	if !answer.Allowed || p.Request.Passes() {
		return answer
	}
	charges, _ := removal.Charged(covering, p.Belongs, b.cell, p.Request, b.now)
	for _, c := range charges {
		quota.Decide(c.Protector, []quota.Removal{c.Ask(p.Request.Attempt(b.cell, b.now, ""))})
	}
	b.charged[p.Name()] = charges
	return answer
}

// Settle takes in that a pod that was admitted is gone.
func (b *Books) Settle(p Pod) {
	facts := podhealth.FactsOf(p.Request.Pod)
	for _, c := range b.charged[p.Name()] {
		cell := quota.CellOf(c.Protector, b.cell)
		if cell == nil {
			continue
		}
		cell.AdmissionHistory.Buckets = slices.DeleteFunc(cell.AdmissionHistory.Buckets, func(bucket v1alpha1.Bucket) bool {
			return bucket.PodUID == p.Request.Pod.UID
		})
		if c.Health(facts, b.cell, b.now).Counted(c.Protector.Spec.Criterion) {
			count(cell, c.Domain.Name, -1)
		}
	}
}

// Return takes in that the replacement of a pod that was settled is available, nobody knows in which domain.
func (b *Books) Return(p Pod) {
	for _, c := range b.charged[p.Name()] {
		if cell := quota.CellOf(c.Protector, b.cell); cell != nil {
			cell.Aggregation.CountedReplicas++
		}
	}
	delete(b.charged, p.Name())
}

// Add takes in that so many pods more are available that are like one.
func (b *Books) Add(like Pod, more int) {
	for _, c := range like.Covering {
		if cell := quota.CellOf(b.protectors[c.String()], b.cell); cell != nil {
			cell.Aggregation.CountedReplicas += int32(more)
		}
	}
}

// Expect takes in that a workload wants so many pods less, for floors that are reckoned from that, and names the protectors that have those.
func (b *Books) Expect(like Pod, fewer int) (follow []string) {
	for _, c := range like.Covering {
		p := b.protectors[c.String()]
		cell := quota.CellOf(p, b.cell)
		if !quota.NeedsExpected(&p.Spec) || cell == nil || cell.Aggregation.ExpectedReplicas == nil {
			continue
		}
		left := max(0, *cell.Aggregation.ExpectedReplicas-int32(fewer))
		cell.Aggregation.ExpectedReplicas = &left
		follow = append(follow, c.String())
	}
	return follow
}

// count changes how many pods of a cell count, and of a domain if it is one that is counted.
func count(cell *v1alpha1.PodProtectorCell, domain string, by int32) {
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

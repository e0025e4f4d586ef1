package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// In a fifth of the seeds, floors are computed: from percentages, from maxUnavailable, from expectedReplicas, and from the replicas that
// the workloads of the cells want. Users scale, delete and recreate these workloads while controllers stop and resume.
// judge/expectation.go checks the expectations.

// ComputedFloor is a floor that is not a number of pods. The zero value is none.
type ComputedFloor struct {
	// Min and Max are minAvailable and maxUnavailable, as "30%" or "2"; one of them is empty.
	Min, Max string
	// Expected is expectedReplicas; 0 leaves it out, so that the expectation comes from the workloads.
	Expected int
	// Release sets the policy by which a deleted workload is no longer expected.
	Release bool
}

// applyTo sets the floor in a spec.
func (c ComputedFloor) applyTo(spec *v1alpha1.PodProtectorSpec) {
	if c == (ComputedFloor{}) {
		return
	}
	spec.MinAvailable = nil
	if c.Min != "" {
		spec.MinAvailable = ParseAmount(c.Min)
	} else {
		spec.MaxUnavailable = ParseAmount(c.Max)
	}
	if c.Expected > 0 {
		expected := int32(c.Expected)
		spec.ExpectedReplicas = &expected
	}
	if c.Release {
		spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease
	}
}

// ParseAmount parses a number of pods or a percentage.
func ParseAmount(text string) *intstr.IntOrString {
	amount := intstr.Parse(text)
	return &amount
}

// drawComputed makes floors computed. It has its own random stream.
func drawComputed(s *Scenario, r *rand.Rand) {
	if r.IntN(5) > 0 {
		return
	}
	for i := range s.Protectors {
		if r.IntN(4) > 0 {
			s.Protectors[i].Computed = drawComputedFloor(r, s.Pods)
		}
	}
	drawWorkloads(s, r)
	for cell := range s.Workers { // each cell has a controller, which is dead for a while
		deadFrom, deadFor := randomTime(r), time.Duration(r.IntN(3))*time.Duration(r.IntN(15000))*time.Millisecond
		for when := randomTime(r) % (2 * time.Second); when < StormTime; when += time.Duration(500+r.IntN(2500)) * time.Millisecond {
			if when < deadFrom || when > deadFrom+deadFor {
				s.Steps = append(s.Steps, Step{At: when + time.Duration(r.IntN(1000)), What: SyncWorkloads, Cell: cell})
			}
		}
	}
	for range 1 + r.IntN(7) {
		kinds := []StepKind{ScaleWorkload, ScaleWorkload, ScaleWorkload, DeleteWorkload, DeleteWorkload, CreateWorkload, CreateWorkload, ConfirmWorkloads,
			RestartPods}
		s.Steps = append(s.Steps, Step{
			At: randomTime(r), What: kinds[r.IntN(len(kinds))], Cell: r.IntN(s.Workers), Core: r.IntN(s.Cores), Who: r.IntN(16), N: r.IntN(s.Pods + 2),
			For: time.Duration(r.IntN(8000)) * time.Millisecond,
		})
	}
	if r.IntN(3) == 0 { // a cell loses all its pods at once, and requests for removals elsewhere follow
		begin, cell := randomTime(r), r.IntN(s.Workers)
		s.Steps = append(s.Steps, Step{At: begin, What: RestartPods, Cell: cell, Who: r.IntN(2), For: time.Duration(2000+r.IntN(8000)) * time.Millisecond})
		for range 2 + r.IntN(8) {
			s.Steps = append(s.Steps, Step{
				At: begin + time.Duration(500+r.IntN(7000))*time.Millisecond, What: Delete, Cell: r.IntN(s.Workers), Who: r.IntN(16), For: time.Second,
			})
		}
	}
	drawBurst(s, r)
}

func drawComputedFloor(r *rand.Rand, pods int) ComputedFloor {
	c := ComputedFloor{Release: r.IntN(3) == 0}
	percent := fmt.Sprintf("%d%%", r.IntN(101))
	switch r.IntN(4) {
	case 0, 1:
		c.Min = percent
	case 2:
		c.Max = percent
	default:
		c.Max = strconv.Itoa(r.IntN(pods + 1))
	}
	if r.IntN(3) == 0 {
		c.Expected = 1 + r.IntN(pods+2)
	}
	return c
}

// drawWorkloads divides the pods of each cell among workloads.
func drawWorkloads(s *Scenario, r *rand.Rand) {
	for cell := range s.Workers {
		pods := 0
		for i := range s.Pods {
			if i%s.Workers == cell {
				pods++
			}
		}
		first := r.IntN(pods + 1)
		for i, replicas := range []int{first, pods - first} {
			kind := []string{KindDeployment, KindStatefulSet}[(i+r.IntN(2))%2]
			s.Workloads = append(s.Workloads, WorkloadPlan{Cell: cell, Kind: kind, Name: fmt.Sprint("web-", string(rune('a'+i))), Replicas: replicas})
		}
	}
}

// withoutWorkloads returns the scenario with floors that are numbers.
func (s Scenario) withoutWorkloads() Scenario {
	s.Workloads = nil
	s.Protectors = slices.Clone(s.Protectors)
	for i := range s.Protectors {
		s.Protectors[i].Computed = ComputedFloor{}
	}
	return s
}

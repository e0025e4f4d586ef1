package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// In a fifth of the seeds, floors are computed: from percentages, from maxUnavailable, from expectedReplicas, and from the replicas that
// the workloads of the cells want. Users scale, delete and recreate these workloads while controllers stop and resume.
// judge_expectation.go checks the expectations.

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
		spec.MinAvailable = parseAmount(c.Min)
	} else {
		spec.MaxUnavailable = parseAmount(c.Max)
	}
	if c.Expected > 0 {
		expected := int32(c.Expected)
		spec.ExpectedReplicas = &expected
	}
	if c.Release {
		spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease
	}
}

func parseAmount(text string) *intstr.IntOrString {
	amount := intstr.Parse(text)
	return &amount
}

// setFloor sets a new floor. A percentage is replaced by a percentage, any other floor by a number of pods.
func setFloor(spec *v1alpha1.PodProtectorSpec, n int) {
	of := &spec.MinAvailable
	if spec.MaxUnavailable != nil {
		of = &spec.MaxUnavailable
	}
	switch {
	case *of != nil && (*of).Type == intstr.String:
		*of = parseAmount(fmt.Sprintf("%d%%", n*10%101))
	default:
		*of = v1alpha1.Pods(int32(n))
	}
}

// isFloorFromWorkloads reports whether the floor of a spec is computed from the replicas that workloads want.
func isFloorFromWorkloads(spec *v1alpha1.PodProtectorSpec) bool {
	isNumber := spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.Int
	return spec.ExpectedReplicas == nil && !isNumber
}

// writtenFloor returns the floor of a protector by the expectations in its status. It is unknown while a cell has no expectation for the
// current spec. Percentages are rounded up. This is an independent implementation, not the code under test.
func writtenFloor(p *v1alpha1.PodProtector) (floor int, known bool) {
	spec := &p.Spec
	if spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.Int {
		return int(spec.MinAvailable.IntVal), true
	}
	expected, known := writtenExpectation(p)
	if !known {
		return 0, false
	}
	switch {
	case spec.MinAvailable != nil:
		return percentOf(spec.MinAvailable, expected), true
	case spec.MaxUnavailable != nil && spec.MaxUnavailable.Type == intstr.Int:
		return max(0, expected-int(spec.MaxUnavailable.IntVal)), true
	case spec.MaxUnavailable != nil:
		return max(0, expected-percentOf(spec.MaxUnavailable, expected)), true
	}
	return 0, false
}

// writtenExpectation returns how many pods a protector expects over all cells by its spec and status.
func writtenExpectation(p *v1alpha1.PodProtector) (pods int, known bool) {
	if p.Spec.ExpectedReplicas != nil {
		return int(*p.Spec.ExpectedReplicas), true
	}
	for i := range p.Status.Cells {
		a := &p.Status.Cells[i].Aggregation
		if !isCounted(p, a) || a.ExpectedReplicas == nil {
			return 0, false
		}
		pods, known = pods+int(*a.ExpectedReplicas), true
	}
	return pods, known
}

func percentOf(amount *intstr.IntOrString, whole int) int {
	percent, err := strconv.Atoi(strings.TrimSuffix(amount.StrVal, "%"))
	if err != nil {
		panic(fmt.Sprintf("simulation: %q is not a percentage", amount.StrVal))
	}
	return (whole*percent + 99) / 100
}

// floorOf returns the floor of a protector; 0 if it is unknown.
func floorOf(p *v1alpha1.PodProtector) int {
	floor, _ := writtenFloor(p)
	return floor
}

// isFloorWrong reports whether the status shows another floor than the one that follows from its cells. An unknown floor in the status is
// informational.
func (w *watchedProtector) isFloorWrong() bool {
	floor, known := writtenFloor(w.stored)
	return known && int(w.stored.Status.DesiredAvailable) != floor
}

// effectiveFloor returns the floor in force. While no floor can be computed, no removal is admitted, so it returns the last known floor.
func (w *watchedProtector) effectiveFloor() int {
	floor, known := writtenFloor(w.stored)
	if last, isRecorded := w.floors.last(); !known && isRecorded {
		return last
	}
	return floor
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
		for when := randomTime(r) % (2 * time.Second); when < stormTime; when += time.Duration(500+r.IntN(2500)) * time.Millisecond {
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
			kind := []string{kindDeployment, kindStatefulSet}[(i+r.IntN(2))%2]
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

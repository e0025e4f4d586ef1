package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// ownerStream is the random stream of DrawOwners.
const ownerStream = 0x6f776e657273

// DrawOwners is Draw with the objects of operators in every seed. In two thirds of the seeds, they are above workloads, whose numbers
// floors are computed from. In the others, protectors name Rollouts whose selectors move between two colors.
func DrawOwners(seed uint64) Scenario {
	s, r := Draw(seed).withoutWorkloads(), newRand(seed, ownerStream)
	for i := range s.Protectors {
		s.Protectors[i].MindsLoss = false
	}
	if r.IntN(3) > 0 {
		drawLevels(&s, r)
	} else {
		drawColors(&s, r)
	}
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s
}

// ownerShapes returns workloads and what is above them. A number above another unit is smaller or larger than that of the pods.
func ownerShapes() []WorkloadPlan {
	none, application := "", apiserver.Application().Kind
	var all []WorkloadPlan
	for kind, uppers := range map[string][]string{
		KindDeployment:         {application, apiserver.KindInstallation, apiserver.KindIntegration, apiserver.KindDatabase},
		KindStatefulSet:        {none, application, apiserver.KindInstallation, apiserver.KindIntegration, apiserver.KindDatabase, apiserver.KindDatabase},
		KindReplicaSet:         {none, application, apiserver.KindInstallation},
		apiserver.KindRollout:  {none, application},
		apiserver.KindPodSet:   {none, apiserver.KindDatabase},
		apiserver.KindPodGroup: {apiserver.KindDatabase, apiserver.KindClusterDatabase, apiserver.KindClusterDatabase},
	} {
		for _, upper := range uppers {
			all = append(all, WorkloadPlan{Kind: kind, Upper: upper, Labeled: true})
		}
	}
	slices.SortStableFunc(all, func(a, b WorkloadPlan) int {
		return slices.Compare([]string{a.Kind, a.Upper}, []string{b.Kind, b.Upper})
	})
	return all
}

// drawLevels draws workloads with objects above them, and deletes, recreates and scales both.
func drawLevels(s *Scenario, r *rand.Rand) {
	for i := range s.Protectors {
		if s.Protectors[i].Computed = drawComputedFloor(r, s.Pods); r.IntN(4) > 0 {
			s.Protectors[i].Computed.Expected = 0
		}
	}
	shapes := ownerShapes()
	for cell := range s.Workers {
		pods := (s.Pods + s.Workers - 1 - cell) / s.Workers
		first := r.IntN(pods + 1)
		for i, replicas := range []int{first, pods - first} {
			plan := shapes[r.IntN(len(shapes))]
			plan.Cell, plan.Name, plan.Replicas, plan.UpperReplicas = cell, fmt.Sprint("db-", string(rune('a'+i))), replicas, r.IntN(3)
			s.Workloads = append(s.Workloads, plan)
		}
	}
	drawControllers(s, r)
	for range 2 + r.IntN(8) {
		kinds := []StepKind{
			ScaleWorkload, ScaleWorkload, DeleteWorkload, DeleteWorkload, CreateWorkload, CreateWorkload, CreateWorkload, DeleteUpper, DeleteUpper, ScaleUpper,
			ReplaceSet, ReplaceSet, ConfirmWorkloads,
		}
		s.Steps = append(s.Steps, Step{
			At: randomTime(r), What: kinds[r.IntN(len(kinds))], Cell: r.IntN(s.Workers), Core: r.IntN(s.Cores), Who: r.IntN(16), N: r.IntN(s.Pods + 2),
			For: time.Duration(r.IntN(8000)) * time.Millisecond,
		})
	}
	s.Steps = append(s.Steps, Step{At: randomTime(r), What: RestartPods, Cell: r.IntN(s.Workers), For: time.Duration(1+r.IntN(4000)) * time.Millisecond})
	drawBurst(s, r)
}

// drawControllers lets the controllers of each cell sync, except for a while in which they are dead.
func drawControllers(s *Scenario, r *rand.Rand) {
	for cell := range s.Workers {
		deadFrom, deadFor := randomTime(r), time.Duration(r.IntN(3))*time.Duration(r.IntN(15000))*time.Millisecond
		for when := randomTime(r) % (2 * time.Second); when < StormTime; when += time.Duration(500+r.IntN(2500)) * time.Millisecond {
			if when < deadFrom || when > deadFrom+deadFor {
				s.Steps = append(s.Steps, Step{At: when + time.Duration(r.IntN(1000)), What: SyncWorkloads, Cell: cell})
			}
		}
	}
}

// drawColors draws a Rollout of two colors in each cell. Its selector moves in the middle of removals, some of which hang after their
// review.
func drawColors(s *Scenario, r *rand.Rand) {
	s.Protectors[0].Target = "web"
	for i := range s.Protectors {
		if s.Protectors[i].Computed = (ComputedFloor{}); s.Protectors[i].Target != "" && r.IntN(2) == 0 {
			s.Protectors[i].Computed = drawComputedFloor(r, s.Pods/2)
		}
	}
	s.Protectors[0].Floor = r.IntN(s.Pods/2 + 1)
	for cell := range s.Workers {
		s.Workloads = append(s.Workloads, WorkloadPlan{
			Cell: cell, Kind: apiserver.KindRollout, Name: "web", Replicas: s.Pods / s.Workers / 2, Labeled: true, Color: Colors()[r.IntN(2)],
		})
	}
	drawControllers(s, r)
	for range 1 + r.IntN(3) {
		begin, cell, color := randomTime(r), r.IntN(s.Workers), r.IntN(2)
		for i := range 1 + r.IntN(3) { // back and forth
			s.Steps = append(s.Steps, Step{At: begin + time.Duration(i*(500+r.IntN(8000)))*time.Millisecond, What: MoveColor, Cell: cell, N: color + i})
		}
		for range 4 + r.IntN(10) {
			step := Step{
				At: begin + time.Duration(r.IntN(12000)-3000)*time.Millisecond, What: []StepKind{Delete, Delete, Evict}[r.IntN(3)], Cell: cell, Who: r.IntN(16),
				For: time.Second,
			}
			step.Stuck = randomHang(r, 3)
			s.Steps = append(s.Steps, step)
		}
	}
	for range r.IntN(4) {
		kinds := []StepKind{ScaleWorkload, DeleteWorkload, CreateWorkload, CreateWorkload, RestartPods}
		s.Steps = append(s.Steps, Step{
			At: randomTime(r), What: kinds[r.IntN(len(kinds))], Cell: r.IntN(s.Workers), Who: r.IntN(16), N: r.IntN(s.Pods/2 + 1),
			For: time.Duration(1+r.IntN(6000)) * time.Millisecond,
		})
	}
}

// Operators make workloads, and their objects control them. The number of pods comes from the lowest controller whose own scale selects
// the pods (rule 16); judge/owners.go is the oracle. Such workloads select their pods by a label that no step changes. The garbage
// collector asks for the removal of their pods, as it does in a cluster, so that pods survive the controller that they name.

const (
	// WorkloadLabel has the name of the workload that a pod belongs to.
	WorkloadLabel = "workload"
	// ColorLabel has the color of a pod of a Rollout with two colors.
	ColorLabel = "hash"
)

// Colors returns the colors of a Rollout.
func Colors() []string { return []string{"blue", "green"} }

func operatedVersion() string { return apiserver.Application().GroupVersion().String() }

// APIVersion returns the API version of the kind of the workload.
func (p WorkloadPlan) APIVersion() string {
	switch p.Kind {
	case KindDeployment, KindReplicaSet, KindStatefulSet:
		return "apps/v1"
	default:
		return operatedVersion()
	}
}

// HasSets reports whether ReplicaSets own the pods of the workload.
func (p WorkloadPlan) HasSets() bool {
	return p.Kind == KindDeployment || p.Kind == apiserver.KindRollout
}

// UpperPlan returns the object above the workload.
func (p WorkloadPlan) UpperPlan() WorkloadPlan {
	return WorkloadPlan{Cell: p.Cell, Kind: p.Upper, Name: p.Name, Replicas: p.UpperReplicas, Labeled: true}
}

// PodLabels returns the labels by which the workload selects its pods.
func (p WorkloadPlan) PodLabels() map[string]string {
	if !p.Labeled {
		return map[string]string{"app": "x"}
	}
	labels := map[string]string{WorkloadLabel: p.Name}
	if p.SetOf != "" {
		labels[WorkloadLabel] = p.SetOf
	}
	if p.Color != "" {
		labels[ColorLabel] = p.Color
	}
	return labels
}

// operatedObject returns an object of a kind that an operator serves.
func (p WorkloadPlan) operatedObject(meta metav1.ObjectMeta) client.Object {
	if p.Kind == apiserver.Application().Kind {
		return &metav1.PartialObjectMetadata{ObjectMeta: meta}
	}
	o := &apiserver.Operated{ObjectMeta: meta, Spec: apiserver.OperatedSpec{Replicas: int32(p.Replicas)}}
	if slices.Contains([]string{apiserver.KindRollout, apiserver.KindDatabase, apiserver.KindClusterDatabase}, p.Kind) {
		o.Status.Selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: p.PodLabels()})
	}
	return o
}

// OwnLabels returns the labels by which workloads select a pod.
func OwnLabels(pod *corev1.Pod) map[string]string {
	own := map[string]string{}
	for _, key := range []string{WorkloadLabel, ColorLabel} {
		if value, ok := pod.Labels[key]; ok {
			own[key] = value
		}
	}
	return own
}

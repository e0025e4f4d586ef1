package scenario

import (
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// In a sixth of the seeds, protectors count by each criterion, exempt pods, or count more pods than they protect. Pods wait for a node,
// become pending and running, and have their own criteria, which clients change with or without a review. judge/health.go defines which pods
// count.

// criteriaStream is the random stream of criteria. It was chosen so that it changes no seed that tests, mutants or docs name.
const criteriaStream = 0x637269740011

// criteria returns the criteria of protectors and pods, with one that is unknown to Breakwater. The empty one is the default.
func criteria() []v1alpha1.Criterion {
	return []v1alpha1.Criterion{
		v1alpha1.CriterionAvailable, v1alpha1.CriterionReady, v1alpha1.CriterionRunning, v1alpha1.CriterionScheduled, "Unheard-of", "",
	}
}

// exemptLabels returns the labels of the pods that some protectors exempt.
func exemptLabels() map[string]string { return map[string]string{"color": "red"} }

// setCriterion sets in a spec the fields that select which pods count.
func (p ProtectorPlan) setCriterion(spec *v1alpha1.PodProtectorSpec) {
	spec.Criterion = p.Criterion
	if p.Exempts {
		spec.ExemptPodSelector = &v1alpha1.PodSelector{MatchLabels: exemptLabels()}
	}
	if p.CountsAll {
		spec.AggregationSelector = &v1alpha1.PodSelector{}
	}
}

// ApplyCriterion gives a pod its own criterion without a review, as a client does that writes pods/status.
func ApplyCriterion(pod *corev1.Pod, n int) {
	all := criteria()
	_ = LabelChange{v1alpha1.AnnotationCriterion: string(all[n%len(all)])}.Apply(pod)
}

func drawCriteria(s *Scenario, r *rand.Rand) {
	if r.IntN(6) > 0 {
		return
	}
	known := criteria()[:4]
	for i := range s.Protectors {
		p := &s.Protectors[i]
		p.Criterion, p.Exempts, p.CountsAll = known[r.IntN(len(known))], r.IntN(2) == 0, r.IntN(4) == 0
	}
	for range 2 + r.IntN(5) {
		begin, cell := randomTime(r), r.IntN(s.Workers)
		for range 2 + r.IntN(5) {
			drawHealth(s, r, begin, cell)
		}
		for range 2 + r.IntN(8) {
			step := Step{
				At: begin + time.Duration(r.IntN(6000))*time.Millisecond, What: []StepKind{Delete, Delete, Evict}[r.IntN(3)], Cell: cell, Who: r.IntN(16),
				For: time.Second, DeniedLater: r.IntN(8) == 0,
			}
			step.Stuck = randomHang(r, 5)
			s.Steps = append(s.Steps, step)
		}
	}
}

// drawHealth adds a change by which a pod begins or ceases to count. Pods change their criteria only where no age counts: a webhook whose
// clock is ahead takes a young pod for one that counts by its new criterion as well.
func drawHealth(s *Scenario, r *rand.Rand, begin time.Duration, cell int) {
	step := Step{At: begin + time.Duration(r.IntN(5000))*time.Millisecond, Cell: cell, Who: r.IntN(16)}
	kinds := []StepKind{
		CreateUnbound, BecomeScheduled, BecomeScheduled, BecomePending, BecomeRunning, BecomeRunning, BecomeReady, BecomeUnready, BecomeUnknown, AskRelabel,
	}
	if !s.AgesMatter() {
		kinds = append(kinds, SetCriterion, AskRelabel, AskRelabel)
	}
	step.What = kinds[r.IntN(len(kinds))]
	switch {
	case step.What == AskRelabel && s.AgesMatter():
		step.N = 7 + r.IntN(2)
	case step.What == AskRelabel:
		step.N = 7 + r.IntN(len(relabels())-7)
	case step.What == SetCriterion:
		step.N = r.IntN(len(criteria()))
	}
	s.Steps = append(s.Steps, step)
}

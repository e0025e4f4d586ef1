package simulation

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Clients change labels of pods, and API servers have the changes reviewed. A change that takes an available pod out of a protector's
// coverage is a removal (rule 14): it is judged when it takes effect. For a protector without the operation Relabel it is a loss, and so
// are the changes of the step Relabel, which are never reviewed.

// relabelStream is the random stream of relabels. It was chosen so that it changes no seed that tests, mutants or docs name.
const relabelStream = 0x6f706572bf65

// relabel is a change of labels and of a pod's own criterion, like a merge patch: each key gets its value, or is removed if the value is
// empty.
type relabel map[string]string

// relabels returns the changes that clients request: of one label or of two, out of coverage and into it, of a label by which some
// protectors exempt pods, and of a pod's own criterion.
func relabels() []relabel {
	all := []relabel{
		{"app": "y"}, {"tier": "y"}, {"app": ""}, {"app": "y", "tier": "y"}, {"app": "x"}, {"tier": "x"}, {"app": "x", "tier": "x"}, exemptLabels(),
		{"color": ""},
	}
	for _, criterion := range criteria() {
		all = append(all, relabel{v1alpha1.AnnotationCriterion: string(criterion)})
	}
	return all
}

// relabelOf returns what a step changes; nil for a removal.
func relabelOf(s Step) relabel {
	if s.What != AskRelabel {
		return nil
	}
	all := relabels()
	return all[s.N%len(all)]
}

// apply changes a pod.
func (l relabel) apply(object client.Object) error {
	labels, annotations := copyOf(object.GetLabels()), copyOf(object.GetAnnotations())
	for key, value := range l {
		of := labels
		if key == v1alpha1.AnnotationCriterion {
			of = annotations
		}
		if of[key] = value; value == "" {
			delete(of, key)
		}
	}
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
	return nil
}

func copyOf(values map[string]string) map[string]string {
	if values == nil {
		return map[string]string{}
	}
	return maps.Clone(values)
}

// applied returns the pod after the change.
func (l relabel) applied(pod *corev1.Pod) *corev1.Pod {
	changed := pod.DeepCopy()
	_ = l.apply(changed)
	return changed
}

// isReviewed reports whether the match conditions of the webhook select the request: an update that changes neither a label nor the criterion
// is not reviewed.
func (r *removal) isReviewed(pod *corev1.Pod) bool {
	if r.relabel == nil {
		return true
	}
	after := r.relabel.applied(pod)
	return !maps.Equal(pod.Labels, after.Labels) || !haveSameCriterion(pod, after)
}

func haveSameCriterion(a, b *corev1.Pod) bool {
	before, hadBefore := a.Annotations[v1alpha1.AnnotationCriterion]
	after, hasAfter := b.Annotations[v1alpha1.AnnotationCriterion]
	return before == after && hadBefore == hasAfter
}

// loses reports whether a relabel takes a pod from the protector: the pod is no longer covered, or does not count by its new criterion.
func (w *watchedProtector) loses(pod *corev1.Pod, l relabel) bool {
	after := l.applied(pod)
	return !w.covers(after) || !haveSameCriterion(pod, after) && !podState{pod: after}.isCountable(w)
}

// isMoot reports whether a relabel or an update can no longer take effect after its review: API servers store it only while the pod has
// the version that was reviewed.
func (r *removal) isMoot(line *podHistory) bool {
	return (r.relabel != nil || r.update != nil && !r.stored) && line.current().version != parseVersion(r.reviewed.ResourceVersion)
}

// isChargedFor reports whether a request takes a pod from a protector that it covers, by an operation that the protector guards.
func (w *watchedProtector) isChargedFor(r *removal, pod *corev1.Pod) bool {
	switch {
	case r.relabel != nil:
		return w.guardsRelabels() && w.loses(pod, r.relabel)
	case r.update != nil:
		return w.guardsOperation(r.update.operation())
	default:
		return true
	}
}

// guardsRelabels reports whether relabels consume budget; by default they do. This is an independent implementation, not the code under
// test.
func (w *watchedProtector) guardsRelabels() bool {
	operations := w.stored.Spec.Operations
	return len(operations) == 0 || slices.Contains(operations, v1alpha1.OperationRelabel)
}

// isRelabelCharged reports whether a relabel that took effect is to be judged as a removal from a protector. A protector that does not guard
// relabels loses the pod.
func (j *effectJudge) isRelabelCharged(t *cellHistory, w *watchedProtector, r *removal, before podState, version uint64) bool {
	if !w.loses(before.pod, r.relabel) {
		return false
	}
	if !w.guardsRelabels() {
		t.losses = append(t.losses, loss{excuse: lossRelabelled, restores: t.restores, version: version, before: before,
			after: podState{pod: r.relabel.applied(before.pod)}, protector: w})
		return false
	}
	if before.isAvailable(w, time.Now()) {
		j.report.counts.Relabels++
	}
	return true
}

// operations returns the operations of a protector that leaves relabels out, or guards updates; nil is the default.
func (p ProtectorPlan) operations() []v1alpha1.Operation {
	if !p.NoRelabels && !p.Updates {
		return nil
	}
	operations := []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict}
	if !p.NoRelabels {
		operations = append(operations, v1alpha1.OperationRelabel)
	}
	if p.Updates {
		operations = append(operations, v1alpha1.OperationUpdate, v1alpha1.OperationResize)
	}
	return operations
}

// drawRelabels lets clients relabel pods in a fourth of the seeds: several change the same pod, back and forth, in the middle of removals.
func drawRelabels(s *Scenario, r *rand.Rand) {
	if r.IntN(4) > 0 {
		return
	}
	for i := range s.Protectors {
		s.Protectors[i].NoRelabels = r.IntN(6) == 0
	}
	for range 1 + r.IntN(4) {
		begin, width, cell := randomTime(r), time.Duration(1+r.IntN(4000))*time.Millisecond, r.IntN(s.Workers)
		for range 2 + r.IntN(8) {
			step := Step{
				At: begin + time.Duration(r.Int64N(int64(width))), What: AskRelabel, Cell: cell, Who: r.IntN(16), N: r.IntN(5), RefusedLater: r.IntN(8) == 0,
			}
			step.Stuck = randomHang(r, 4)
			s.Steps = append(s.Steps, step)
			if r.IntN(3) == 0 { // another client, which may undo it
				step.At += time.Duration(r.IntN(3000)) * time.Millisecond
				step.N, step.Stuck = 3+r.IntN(5), 0
				s.Steps = append(s.Steps, step)
			}
			if r.IntN(3) == 0 { // and one that removes the pod
				s.Steps = append(s.Steps, Step{
					At: step.At + time.Duration(r.IntN(2000))*time.Millisecond, What: []StepKind{Delete, Evict, BecomeUnready, BecomeReady}[r.IntN(4)],
					Cell: cell, Who: step.Who, For: time.Second,
				})
			}
		}
	}
}

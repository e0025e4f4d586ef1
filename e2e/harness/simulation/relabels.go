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

// relabelLuck is the random stream of relabels. It was chosen so that it changes no seed that tests, mutants or docs name.
const relabelLuck = 0x6f706572bf65

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

// of returns the pod after the change.
func (l relabel) of(pod *corev1.Pod) *corev1.Pod {
	changed := pod.DeepCopy()
	_ = l.apply(changed)
	return changed
}

// changes reports whether the match conditions of the webhook select the request: an update that changes neither a label nor the criterion
// is not reviewed.
func (r *removal) changes(pod *corev1.Pod) bool {
	if r.relabel == nil {
		return true
	}
	after := r.relabel.of(pod)
	return !maps.Equal(pod.Labels, after.Labels) || !haveSameCriterion(pod, after)
}

func haveSameCriterion(a, b *corev1.Pod) bool {
	was, given := a.Annotations[v1alpha1.AnnotationCriterion]
	is, still := b.Annotations[v1alpha1.AnnotationCriterion]
	return was == is && given == still
}

// takes reports whether a relabel takes a pod from a protector: the pod is no longer covered, or does not count by its new criterion.
func (l relabel) takes(pod *corev1.Pod, from *watched) bool {
	after := l.of(pod)
	return !from.covers(after) || !haveSameCriterion(pod, after) && !podState{pod: after}.countable(from)
}

// isMoot reports whether a relabel or an update can no longer take effect after its review: API servers store it only while the pod has
// the version that was reviewed.
func (r *removal) isMoot(line *lifeline) bool {
	return (r.relabel != nil || r.change != nil && !r.stored) && line.now().version != parseVersion(r.reviewed.ResourceVersion)
}

// isCharged reports whether a request takes a pod from a protector that it covers, by an operation that the protector guards.
func (w *watched) isCharged(r *removal, pod *corev1.Pod) bool {
	switch {
	case r.relabel != nil:
		return w.guardsRelabels() && r.relabel.takes(pod, w)
	case r.change != nil:
		return w.isGuarding(r.change.operation())
	default:
		return true
	}
}

// guardsRelabels reports whether relabels consume budget; by default they do. This is an independent implementation, not the code under
// test.
func (w *watched) guardsRelabels() bool {
	operations := w.stored.Spec.Operations
	return len(operations) == 0 || slices.Contains(operations, v1alpha1.OperationRelabel)
}

// isLeaving reports whether a relabel that took effect is to be judged as a removal from a protector. A protector that does not guard
// relabels loses the pod.
func (j *judge) isLeaving(t *truth, w *watched, r *removal, before podState, version uint64) bool {
	if !r.relabel.takes(before.pod, w) {
		return false
	}
	if !w.guardsRelabels() {
		t.losses = append(t.losses, loss{why: lossRelabelled, era: t.era, version: version, before: before, after: podState{pod: r.relabel.of(before.pod)}, only: w})
		return false
	}
	if before.available(w, time.Now()) {
		j.counts.Relabels++
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
func (s *Scenario) drawRelabels(r *rand.Rand) {
	if r.IntN(4) > 0 {
		return
	}
	for i := range s.Protectors {
		s.Protectors[i].NoRelabels = r.IntN(6) == 0
	}
	for range 1 + r.IntN(4) {
		begin, width, cell := at(r), time.Duration(1+r.IntN(4000))*time.Millisecond, r.IntN(s.Workers)
		for range 2 + r.IntN(8) {
			step := Step{
				At: begin + time.Duration(r.Int64N(int64(width))), What: AskRelabel, Cell: cell, Who: r.IntN(16), N: r.IntN(5), RefusedLater: r.IntN(8) == 0,
			}
			step.Stuck = stuckOnceIn(r, 4)
			s.Steps = append(s.Steps, step)
			if r.IntN(3) == 0 { // another client, which may undo it
				step.At += time.Duration(r.IntN(3000)) * time.Millisecond
				step.N, step.Stuck = 3+r.IntN(5), 0
				s.Steps = append(s.Steps, step)
			}
			if r.IntN(3) == 0 { // and one that removes the pod
				s.Steps = append(s.Steps, Step{
					At: step.At + time.Duration(r.IntN(2000))*time.Millisecond, What: []What{Delete, Evict, BecomeUnready, BecomeReady}[r.IntN(4)],
					Cell: cell, Who: step.Who, For: time.Second,
				})
			}
		}
	}
}

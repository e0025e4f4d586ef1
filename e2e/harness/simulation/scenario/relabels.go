package scenario

import (
	"maps"
	"math/rand/v2"
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

// LabelChange is a change of labels and of a pod's own criterion, like a merge patch: each key gets its value, or is removed if the value is
// empty.
type LabelChange map[string]string

// relabels returns the changes that clients request: of one label or of two, out of coverage and into it, of a label by which some
// protectors exempt pods, and of a pod's own criterion.
func relabels() []LabelChange {
	all := []LabelChange{
		{"app": "y"}, {"tier": "y"}, {"app": ""}, {"app": "y", "tier": "y"}, {"app": "x"}, {"tier": "x"}, {"app": "x", "tier": "x"}, exemptLabels(),
		{"color": ""},
	}
	for _, criterion := range criteria() {
		all = append(all, LabelChange{v1alpha1.AnnotationCriterion: string(criterion)})
	}
	return all
}

// RelabelOf returns what a step changes; nil for a removal.
func RelabelOf(s Step) LabelChange {
	if s.What != AskRelabel {
		return nil
	}
	all := relabels()
	return all[s.N%len(all)]
}

// Apply changes a pod.
func (l LabelChange) Apply(object client.Object) error {
	labels, annotations := CopyOf(object.GetLabels()), CopyOf(object.GetAnnotations())
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

// CopyOf returns a copy of values that is not nil.
func CopyOf(values map[string]string) map[string]string {
	if values == nil {
		return map[string]string{}
	}
	return maps.Clone(values)
}

// Applied returns the pod after the change.
func (l LabelChange) Applied(pod *corev1.Pod) *corev1.Pod {
	changed := pod.DeepCopy()
	_ = l.Apply(changed)
	return changed
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
				At: begin + time.Duration(r.Int64N(int64(width))), What: AskRelabel, Cell: cell, Who: r.IntN(16), N: r.IntN(5), DeniedLater: r.IntN(8) == 0,
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

// Package podhealth computes the properties of a pod that a protector counts: whether it is scheduled, running, ready and available.
// The webhook and the aggregator use the same functions, so that the removal of a counted pod is always charged.
package podhealth

import (
	"cmp"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Facts are the inputs of a pod's health, in 16 bytes: an aggregator keeps them for every pod of its cell.
type Facts struct {
	// readySince is the Ready condition's lastTransitionTime in Unix seconds, its full resolution. 0 means none.
	readySince int64
	// observed is status.observedGeneration, or the highest number that fits.
	observed uint32
	bits     bits
	own      criterionCode
}

type bits uint8

const (
	terminating bits = 1 << iota
	finished
	scheduled
	running
	ready
	// doubtful means that the status does not determine whether the pod is ready.
	doubtful
	// breakGlass means that the pod has the annotation by which the webhook admits its removal regardless of the floor.
	breakGlass
)

// criterionCode is a pod's own criterion, in one byte.
type criterionCode uint8

const (
	ownNone criterionCode = iota
	ownAvailable
	ownReady
	ownRunning
	ownScheduled
	// ownUnknown is an annotation with an unsupported value.
	ownUnknown
)

// unknownCriterion is a criterion that no pod meets.
const unknownCriterion v1alpha1.Criterion = "Unknown"

func ownCriterion(pod *corev1.Pod) criterionCode {
	text, given := pod.Annotations[v1alpha1.AnnotationCriterion]
	if !given {
		return ownNone
	}
	switch v1alpha1.Criterion(text) {
	case v1alpha1.CriterionAvailable:
		return ownAvailable
	case v1alpha1.CriterionReady:
		return ownReady
	case v1alpha1.CriterionRunning:
		return ownRunning
	case v1alpha1.CriterionScheduled:
		return ownScheduled
	default:
		return ownUnknown
	}
}

func (o criterionCode) criterion() v1alpha1.Criterion {
	return [...]v1alpha1.Criterion{
		"", v1alpha1.CriterionAvailable, v1alpha1.CriterionReady, v1alpha1.CriterionRunning, v1alpha1.CriterionScheduled, unknownCriterion,
	}[o]
}

// Health is the state of a pod at one time.
type Health struct {
	// Scheduled pods have a node, and are neither finished nor terminating. Running pods are also in phase Running, Ready pods also
	// have the Ready condition, and Available pods have had it for minReadySeconds.
	Scheduled, Running, Ready, Available bool

	// Doubtful pods may be available, but their status does not determine it. They do not count as available, but their removal is
	// charged: uncertainty is resolved to the strict side in both cases.
	Doubtful bool

	// OwnCriterion is the pod's own criterion. It is empty if the pod has none, and a criterion that no pod meets if the value is unsupported.
	OwnCriterion v1alpha1.Criterion

	// AvailableAt is the time at which a Ready pod will have been Ready for minReadySeconds. It is zero for all others. No watch event
	// arrives at that time.
	AvailableAt time.Time

	// AvailableSince is the time at which an Available pod had been Ready for minReadySeconds. It is zero if minReadySeconds is 0, and
	// for all other pods.
	AvailableSince time.Time
}

// Counted reports whether the pod counts towards the floor of a protector with that criterion.
func (h Health) Counted(protectors v1alpha1.Criterion) bool {
	return h.Meets(cmp.Or(h.OwnCriterion, protectors))
}

// Charged reports whether a removal of the pod consumes budget: the pod counts, or may count.
func (h Health) Charged(protectors v1alpha1.Criterion) bool {
	return h.Counted(protectors) || h.Doubtful || h.OwnCriterion == unknownCriterion && h.Scheduled
}

// Meets reports whether the pod meets a criterion. An empty criterion is Available.
func (h Health) Meets(criterion v1alpha1.Criterion) bool {
	switch criterion {
	case v1alpha1.CriterionAvailable, "":
		return h.Available
	case v1alpha1.CriterionReady:
		return h.Ready
	case v1alpha1.CriterionRunning:
		return h.Running
	case v1alpha1.CriterionScheduled:
		return h.Scheduled
	default:
		return false
	}
}

// FactsOf returns the facts of a pod, from its metadata, spec.nodeName and status.
func FactsOf(pod *corev1.Pod) Facts {
	f := Facts{own: ownCriterion(pod), observed: uint32(min(max(pod.Status.ObservedGeneration, 0), math.MaxUint32))}
	f.set(terminating, pod.DeletionTimestamp != nil)
	f.set(finished, pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed)
	f.set(scheduled, pod.Spec.NodeName != "")
	f.set(running, pod.Status.Phase == corev1.PodRunning)
	f.set(breakGlass, pod.Annotations[v1alpha1.AnnotationForceDelete] == "true")

	condition := readyCondition(pod)
	switch {
	case condition == nil:
		f.set(doubtful, f.has(running))
	case condition.Status == corev1.ConditionTrue:
		f.set(ready, f.has(running))
		f.set(doubtful, !f.has(running))
		if !condition.LastTransitionTime.IsZero() {
			f.readySince = condition.LastTransitionTime.Unix()
		}
	case condition.Status != corev1.ConditionFalse:
		f.set(doubtful, true)
	}
	return f
}

func readyCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Of combines FactsOf and At.
func Of(pod *corev1.Pod, minReadySeconds int32, now time.Time) Health {
	return FactsOf(pod).At(minReadySeconds, now)
}

// At returns the health at the time now, for a protector with that minReadySeconds.
func (f Facts) At(minReadySeconds int32, now time.Time) Health {
	if f.IsTerminatingOrFinished() || !f.has(scheduled) {
		return Health{}
	}
	h := Health{OwnCriterion: f.own.criterion(), Scheduled: true, Running: f.has(running), Ready: f.has(ready), Doubtful: f.has(doubtful)}
	if !h.Ready {
		return h
	}
	switch {
	case minReadySeconds <= 0:
		h.Available = true
	case f.readySince == 0:
		h.Doubtful = true
	default:
		at := time.Unix(f.readySince, 0).Add(time.Duration(minReadySeconds) * time.Second)
		if h.Available = !now.Before(at); h.Available {
			h.AvailableSince = at
		} else {
			h.AvailableAt = at
		}
	}
	return h
}

// IsTerminatingOrFinished reports whether the pod is terminating or finished. No operation can make such a pod less available.
func (f Facts) IsTerminatingOrFinished() bool { return f.has(terminating) || f.has(finished) }

// ObservedGeneration returns the pod generation that its status reflects. It is 0 if the kubelet does not report it.
func (f Facts) ObservedGeneration() int64 { return int64(f.observed) }

// Scheduled reports whether the pod has a node.
func (f Facts) Scheduled() bool { return f.has(scheduled) }

// Terminating reports whether the pod's deletion has begun.
func (f Facts) Terminating() bool { return f.has(terminating) }

// IsBreakGlass reports whether the pod has AnnotationForceDelete, which admits its removal regardless of the floor.
func (f Facts) IsBreakGlass() bool { return f.has(breakGlass) }

// ForceDeletable reports whether the pod is neither terminating nor finished, and AnnotationForceDelete admits its removal.
func (f Facts) ForceDeletable() bool { return f.IsBreakGlass() && !f.IsTerminatingOrFinished() }

// Finished reports whether the pod has succeeded or failed.
func (f Facts) Finished() bool { return f.has(finished) }

func (f Facts) has(b bits) bool { return f.bits&b != 0 }

func (f *Facts) set(b bits, value bool) {
	if value {
		f.bits |= b
	}
}

// Package podhealth says of a pod what a protector counts: whether it is scheduled, running, ready and
// available. The webhook and the aggregator ask the same functions, so a pod that is counted is also charged.
package podhealth

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Facts are what health depends on, in 16 bytes: an aggregator keeps one for every pod of its cell.
type Facts struct {
	// readySince is the Ready condition's lastTransitionTime in Unix seconds, its full resolution; 0 is none.
	readySince int64
	bits       bits
}

type bits uint8

const (
	terminating bits = 1 << iota
	finished
	scheduled
	running
	ready
	// doubtful means that the status neither says that the pod is ready nor that it is not.
	doubtful
)

// Health is the state of a pod at one time.
type Health struct {
	// Scheduled pods have a node and have neither finished nor begun to terminate; Running ones are in phase
	// Running besides, Ready ones have the Ready condition, Available ones have had it for minReadySeconds.
	Scheduled, Running, Ready, Available bool

	// Doubtful pods may be available: their status does not tell. They are not counted, but their removal
	// is charged, so that doubt makes us stricter on both sides.
	Doubtful bool

	// AvailableAt is when a Ready pod will have been Ready for long enough; zero for all others. Nothing
	// happens to the pod at that time, so no event tells.
	AvailableAt time.Time
}

// Charged tells whether a removal of the pod costs budget.
func (h Health) Charged() bool { return h.Available || h.Doubtful }

// FactsOf reads the facts from a pod's metadata, spec.nodeName and status.
func FactsOf(pod *corev1.Pod) Facts {
	var f Facts
	f.set(terminating, pod.DeletionTimestamp != nil)
	f.set(finished, pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed)
	f.set(scheduled, pod.Spec.NodeName != "")
	f.set(running, pod.Status.Phase == corev1.PodRunning)

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

// Of is FactsOf and At in one.
func Of(pod *corev1.Pod, minReadySeconds int32, now time.Time) Health {
	return FactsOf(pod).At(minReadySeconds, now)
}

// At returns the health at the time now, for a protector with that minReadySeconds.
func (f Facts) At(minReadySeconds int32, now time.Time) Health {
	if f.Gone() || !f.has(scheduled) {
		return Health{}
	}
	h := Health{Scheduled: true, Running: f.has(running), Ready: f.has(ready), Doubtful: f.has(doubtful)}
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
		if h.Available = !now.Before(at); !h.Available {
			h.AvailableAt = at
		}
	}
	return h
}

// Gone tells whether the pod is terminating or finished: nothing that is done to it makes it less available.
func (f Facts) Gone() bool { return f.has(terminating) || f.has(finished) }

// Terminating tells whether the pod's deletion has begun.
func (f Facts) Terminating() bool { return f.has(terminating) }

func (f Facts) has(b bits) bool { return f.bits&b != 0 }

func (f *Facts) set(b bits, value bool) {
	if value {
		f.bits |= b
	}
}

package modes

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// eventMode is a settlement mode in which an event ends the reservations made before it. The mutex of eventSettlement guards it.
type eventMode interface {
	// record records an event of a pod.
	record(p *corev1.Pod)
	// latest returns the time of the latest event; zero before the first.
	latest() time.Time
}

// clockMode is the mode Clock: the time of an event is when the aggregator received it, by its own clock.
type clockMode struct {
	now      func() time.Time
	received time.Time
}

func (m *clockMode) record(*corev1.Pod) { m.received = m.now() }
func (m *clockMode) latest() time.Time  { return m.received }

// statusMode is the mode Status: the time of an event is the latest timestamp in its pod.
type statusMode struct{ reported time.Time }

func (m *statusMode) record(p *corev1.Pod) {
	if at := LatestTime(p); at.After(m.reported) {
		m.reported = at
	}
}

func (m *statusMode) latest() time.Time { return m.reported }

// LatestTime returns the latest timestamp of a change in a pod: its creation, the start of its deletion, or a change of its
// conditions.
func LatestTime(p *corev1.Pod) time.Time {
	latest := p.CreationTimestamp.Time
	later := func(at time.Time) {
		if at.After(latest) {
			latest = at
		}
	}
	if p.DeletionTimestamp != nil {
		grace := time.Duration(0)
		if p.DeletionGracePeriodSeconds != nil {
			grace = time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
		}
		later(p.DeletionTimestamp.Add(-grace))
	}
	for i := range p.Status.Conditions {
		later(p.Status.Conditions[i].LastTransitionTime.Time)
		later(p.Status.Conditions[i].LastProbeTime.Time)
	}
	return latest
}

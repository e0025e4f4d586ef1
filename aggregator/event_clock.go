package aggregator

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// eventClock records the times of events on a cell's stream. In the modes Clock and Status a reservation ends with an event that
// is later than it, by the clock of the aggregator or by the timestamps in the pods. See docs/concepts/settlement.md for what that
// loses. Exact, the default, does not use it (rule 4).
type eventClock struct {
	// mode is a v1alpha1.Settlement.
	mode atomic.Value
	now  func() time.Time

	mu sync.Mutex
	// received is when the last event was received, and status the latest timestamp in a pod.
	received, reported time.Time
	// waiting are the protectors for which the next event may settle a reservation.
	waiting map[types.NamespacedName]time.Duration
	// notify is called for each of them when an event arrives; it must not block.
	notify func(types.NamespacedName, time.Duration)
}

func newEventClock(notify func(types.NamespacedName, time.Duration), now func() time.Time) *eventClock {
	return &eventClock{now: now, notify: notify, waiting: map[types.NamespacedName]time.Duration{}}
}

func (c *eventClock) isExact() bool {
	mode, _ := c.mode.Load().(v1alpha1.Settlement)
	return mode != v1alpha1.SettlementClock && mode != v1alpha1.SettlementStatus
}

// setMode sets the mode that the Cell requests.
func (c *eventClock) setMode(mode v1alpha1.Settlement) { c.mode.Store(mode) }

// record records an event of a pod.
func (c *eventClock) record(p *corev1.Pod) {
	if c.isExact() {
		return
	}
	now, latest := c.now(), latestTime(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.received = now
	if latest.After(c.reported) {
		c.reported = latest
	}
	for protector, rate := range c.waiting {
		c.notify(protector, rate)
	}
	clear(c.waiting)
}

// settledUntil is the time up to which reservations have ended; zero if the mode ends none by time.
func (c *eventClock) settledUntil() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch mode, _ := c.mode.Load().(v1alpha1.Settlement); mode {
	case v1alpha1.SettlementClock:
		return c.received
	case v1alpha1.SettlementStatus:
		return c.reported
	default:
		return time.Time{}
	}
}

// notifyOnNext enqueues a protector again after the next event, when rate has passed.
func (c *eventClock) notifyOnNext(protector types.NamespacedName, rate time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[protector] = rate
}

// hasWaiting reports whether any protector waits for an event.
func (c *eventClock) hasWaiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) > 0
}

// latestTime returns the latest timestamp of a change in a pod: its creation, the start of its deletion, or a change of its
// conditions.
func latestTime(p *corev1.Pod) time.Time {
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

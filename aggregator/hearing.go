package aggregator

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// hearing records the times of events on a cell's stream. In the modes Clock and Status a reservation ends with an event that
// is later than it, by the clock of the aggregator or by the timestamps in the pods. See docs/settlement.md for what that
// loses. Exact, the default, does not use it.
type hearing struct {
	// mode is a v1alpha1.Settlement.
	mode atomic.Value
	now  func() time.Time

	mu sync.Mutex
	// clock is when the last event was received, and status the latest timestamp in a pod.
	clock, status time.Time
	// waiting are the protectors for which the next event may settle a reservation.
	waiting map[types.NamespacedName]time.Duration
	// told is called for each of them when an event arrives; it must not block.
	told func(types.NamespacedName, time.Duration)
}

func newHearing(told func(types.NamespacedName, time.Duration), now func() time.Time) *hearing {
	return &hearing{now: now, told: told, waiting: map[types.NamespacedName]time.Duration{}}
}

func (h *hearing) isExact() bool {
	mode, _ := h.mode.Load().(v1alpha1.Settlement)
	return mode != v1alpha1.SettlementClock && mode != v1alpha1.SettlementStatus
}

// heed sets the mode that the Cell requests.
func (h *hearing) heed(mode v1alpha1.Settlement) { h.mode.Store(mode) }

// hear records an event of a pod.
func (h *hearing) hear(p *corev1.Pod) {
	if h.isExact() {
		return
	}
	now, latest := h.now(), latestTime(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock = now
	if latest.After(h.status) {
		h.status = latest
	}
	for protector, rate := range h.waiting {
		h.told(protector, rate)
	}
	clear(h.waiting)
}

// until is the time up to which reservations have ended; zero if the mode ends none by time.
func (h *hearing) until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch mode, _ := h.mode.Load().(v1alpha1.Settlement); mode {
	case v1alpha1.SettlementClock:
		return h.clock
	case v1alpha1.SettlementStatus:
		return h.status
	default:
		return time.Time{}
	}
}

// await enqueues a protector again after the next event, when rate has passed.
func (h *hearing) await(protector types.NamespacedName, rate time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting[protector] = rate
}

// isAwaited reports whether any protector waits for an event.
func (h *hearing) isAwaited() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting) > 0
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

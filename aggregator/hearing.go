package aggregator

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// hearing is what a cell's stream tells of time. In the modes Clock and Status a reservation ends when something was heard of
// the cell that is later than it, by the clock of the aggregator or by the times that stand in the pods. See docs/settlement.md
// for what that loses. Exact, the default, asks for none of this.
type hearing struct {
	// mode is a v1alpha1.Settlement.
	mode atomic.Value
	now  func() time.Time

	mu sync.Mutex
	// clock is when something was heard last, and status the latest time that stood in a pod.
	clock, status time.Time
	// waiting are the protectors that the next event may settle something of.
	waiting map[types.NamespacedName]time.Duration
	// told is told of them when there is one; it must not block.
	told func(types.NamespacedName, time.Duration)
}

func newHearing(told func(types.NamespacedName, time.Duration), now func() time.Time) *hearing {
	return &hearing{now: now, told: told, waiting: map[types.NamespacedName]time.Duration{}}
}

func (h *hearing) isExact() bool {
	mode, _ := h.mode.Load().(v1alpha1.Settlement)
	return mode != v1alpha1.SettlementClock && mode != v1alpha1.SettlementStatus
}

// heed takes in what the Cell asks for.
func (h *hearing) heed(mode v1alpha1.Settlement) { h.mode.Store(mode) }

// hear takes in an event of a pod.
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

// until is the time up to which reservations have ended; zero when time ends none.
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

// await looks at a protector again when the next event is heard, and the rate has passed.
func (h *hearing) await(protector types.NamespacedName, rate time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting[protector] = rate
}

// isAwaited tells whether any protector waits for an event.
func (h *hearing) isAwaited() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting) > 0
}

// latestTime is the latest time in a pod at which something happened to it: its creation, the begin of its deletion, or a
// change of its conditions.
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

// Package modes has what the settlement modes Clock and Status add to Exact: in them an event of any pod ends the reservations made before it.
// The aggregator settles by it only while the Cell requests one of them.
package modes

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// EventSettlement is what the settlement modes Clock and Status add to Exact: a reservation also ends with an event of any pod that is
// later than it. See docs/concepts/settlement.md for what that loses. While the Cell's mode is Exact, the default, it changes nothing
// (rule 4).
type EventSettlement struct {
	// modes are the modes that settle by events.
	modes map[v1alpha1.Settlement]eventMode
	// mode is a v1alpha1.Settlement, as of the last heartbeat.
	mode atomic.Value

	mu sync.Mutex
	// waiting are the protectors for which the next event may settle a reservation.
	waiting map[types.NamespacedName]time.Duration
	// notify is called for each of them when an event arrives; it must not block.
	notify func(types.NamespacedName, time.Duration)
}

// New creates an EventSettlement that calls notify for each protector with a reservation that an event may settle, with the time until then. notify
// must not block.
func New(notify func(types.NamespacedName, time.Duration), now func() time.Time) *EventSettlement {
	return &EventSettlement{
		modes:  map[v1alpha1.Settlement]eventMode{v1alpha1.SettlementClock: &clockMode{now: now}, v1alpha1.SettlementStatus: &statusMode{}},
		notify: notify, waiting: map[types.NamespacedName]time.Duration{},
	}
}

// SetMode sets the mode that the Cell requests.
func (s *EventSettlement) SetMode(mode v1alpha1.Settlement) { s.mode.Store(mode) }

// active returns the mode, if it settles by events; nil in Exact.
func (s *EventSettlement) active() eventMode {
	mode, _ := s.mode.Load().(v1alpha1.Settlement)
	return s.modes[mode]
}

// IsActive reports whether reservations end by events.
func (s *EventSettlement) IsActive() bool { return s.active() != nil }

// Record records an event of a pod.
func (s *EventSettlement) Record(p *corev1.Pod) {
	if !s.IsActive() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, mode := range s.modes {
		mode.record(p)
	}
	for protector, rate := range s.waiting {
		s.notify(protector, rate)
	}
	clear(s.waiting)
}

// Cutoff returns the time up to which events have ended reservations.
func (s *EventSettlement) Cutoff() Cutoff {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mode := s.active(); mode != nil {
		return Cutoff{mode.latest()}
	}
	return Cutoff{}
}

// Await reports whether events end the reservations of a protector, instead of a deadline. If so and the entry has open reservations, the
// next event enqueues the protector, when rate has passed.
func (s *EventSettlement) Await(protector types.NamespacedName, entry *v1alpha1.PodProtectorCell, rate time.Duration) bool {
	if !s.IsActive() {
		return false
	}
	if entry != nil && quota.Open(&entry.AdmissionHistory) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting[protector] = rate
	}
	return true
}

// needsEvent reports whether any protector waits for an event.
func (s *EventSettlement) needsEvent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.IsActive() && len(s.waiting) > 0
}

// Cutoff is the time up to which events have ended reservations. Zero ends none: in Exact, and before the first event.
type Cutoff struct{ At time.Time }

// applies reports whether a reservation ends only by a later event. Reservations of updates never do: no event reports that an update
// is done. Those of relabels end by the version of their pods, which is more precise.
func (c Cutoff) applies(r quota.Reservation) bool {
	return !c.At.IsZero() && r.Update.IsEmpty() && r.Relabel == 0
}

// Exact returns the reservations to which the cutoff does not apply.
func (c Cutoff) Exact(all iter.Seq[quota.Reservation]) iter.Seq[quota.Reservation] {
	return func(yield func(quota.Reservation) bool) {
		for r := range all {
			if !c.applies(r) && !yield(r) {
				return
			}
		}
	}
}

// Settle returns the state of a reservation whose exact state is known. A pod that the snapshot shows ended stays Absent.
func (c Cutoff) Settle(r quota.Reservation, exact quota.Observation) quota.Observation {
	switch {
	case exact == quota.Absent || !c.applies(r):
		return exact
	case r.Stamp.After(c.At):
		return quota.Alive
	default:
		return quota.Superseded
	}
}

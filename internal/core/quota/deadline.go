package quota

import (
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Deadlines times the open reservations of one protector in one cell on the caller's clock. It never compares a reservation's own
// time with a clock, so differences between the clocks of machines do not matter. It is empty at every start of an aggregator, and
// all timers restart with it. The zero value is ready to use.
type Deadlines struct {
	first map[UIDHash]firstSeen
	// escrows are by holder.
	escrows map[string]firstSeenEscrow
}

type firstSeenEscrow struct {
	stamp int64
	at    time.Time
}

type firstSeen struct {
	stamp time.Time
	at    time.Time
	// update is the time that an update may take after it took effect. It is 0 for all other reservations.
	update time.Duration
}

// deadline returns the time at which the reservation must be checked.
func (s firstSeen) deadline(admission time.Duration) time.Time {
	return s.at.Add(max(admission, s.update))
}

// Observe records the reservations of the newest object. Timers of new and of renewed reservations start now, and those of settled
// reservations are dropped.
func (d *Deadlines) Observe(h *v1alpha1.AdmissionHistory, now time.Time) {
	d.observeEscrows(h, now)
	if len(h.Buckets) == 0 {
		d.first = nil
		return
	}
	next := make(map[UIDHash]firstSeen, Open(h))
	for r := range Reservations(h) {
		seen, ok := d.first[r.Hash]
		if !ok || !seen.stamp.Equal(r.Stamp) {
			seen = firstSeen{stamp: r.Stamp, at: now}
		}
		next[r.Hash] = seen
	}
	d.first = next
}

func (d *Deadlines) observeEscrows(h *v1alpha1.AdmissionHistory, now time.Time) {
	next := make(map[string]firstSeenEscrow, len(h.Escrows))
	for _, e := range h.Escrows {
		seen, ok := d.escrows[e.Holder]
		if !ok || seen.stamp != e.Stamp {
			seen = firstSeenEscrow{e.Stamp, now}
		}
		next[e.Holder] = seen
	}
	d.escrows = next
}

// HasEscrowPassed reports whether everything that the holder of an escrow has admitted by it has taken effect, or never will: the holder may use it for
// EscrowLifetime after the write of its stamp, and the admission deadline has passed since then (rule E4).
func (d *Deadlines) HasEscrowPassed(e v1alpha1.Escrow, deadline time.Duration, now time.Time) bool {
	seen, ok := d.escrows[e.Holder]
	return ok && seen.stamp == e.Stamp && !now.Before(seen.at.Add(EscrowLifetime+deadline))
}

// Prune drops the timers of all reservations that a history does not have. The caller must pass the history that settlement left,
// unless the write of that history certainly failed. Otherwise a later reservation for the same pod might get the same stamp before
// it is observed, since a stamp is moved by the smallest possible step when clocks differ.
func (d *Deadlines) Prune(remaining *v1alpha1.AdmissionHistory) {
	kept := make(map[UIDHash]firstSeen, Open(remaining))
	for r := range Reservations(remaining) {
		if seen, ok := d.first[r.Hash]; ok {
			kept[r.Hash] = seen
		}
	}
	d.first = kept
}

// HasPassed reports whether the deadline has passed since this reservation was first observed with this stamp.
func (d *Deadlines) HasPassed(r Reservation, deadline time.Duration, now time.Time) bool {
	seen, ok := d.first[r.Hash]
	return ok && seen.stamp.Equal(r.Stamp) && !now.Before(seen.deadline(deadline))
}

// FirstSeen returns the time at which this reservation was first observed with this stamp. ok is false if it was not.
func (d *Deadlines) FirstSeen(r Reservation) (at time.Time, ok bool) {
	seen, ok := d.first[r.Hash]
	return seen.at, ok && seen.stamp.Equal(r.Stamp)
}

// RecordEffect records that the update of a reservation took effect, and that it may take until timeout to be done. The deadline of the
// reservation is then at least timeout. It reports whether that was recorded already.
func (d *Deadlines) RecordEffect(r Reservation, timeout time.Duration) (recorded bool) {
	seen, ok := d.first[r.Hash]
	if !ok || !seen.stamp.Equal(r.Stamp) {
		return false
	}
	recorded = seen.update > 0
	seen.update = timeout
	d.first[r.Hash] = seen
	return recorded
}

// Next returns the earliest time at which the deadline of an observed reservation or escrow passes. ok is false if there is none.
func (d *Deadlines) Next(deadline time.Duration) (next time.Time, ok bool) {
	for _, seen := range d.first {
		if at := seen.deadline(deadline); !ok || at.Before(next) {
			next, ok = at, true
		}
	}
	for _, seen := range d.escrows {
		if at := seen.at.Add(EscrowLifetime + deadline); !ok || at.Before(next) {
			next, ok = at, true
		}
	}
	return next, ok
}

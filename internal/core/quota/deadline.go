package quota

import (
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Deadlines times the open reservations of one protector in one cell on the clock of whoever calls it: no
// reservation's own time is compared with anything, so clocks of other machines do not matter. It begins empty
// at every start of an aggregator, and all timers begin anew with it. The zero value is ready.
type Deadlines struct {
	first map[UIDHash]firstSeen
}

type firstSeen struct {
	stamp time.Time
	at    time.Time
	// update is how long an update may take that has taken effect; 0 is for all others.
	update time.Duration
}

// deadline is when the reservation is to be looked at.
func (s firstSeen) deadline(admission time.Duration) time.Time {
	return s.at.Add(max(admission, s.update))
}

// Observe takes note of the reservations of the newest object: timers of new and of renewed ones begin now,
// those of settled ones are dropped.
func (d *Deadlines) Observe(h *v1alpha1.AdmissionHistory, now time.Time) {
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

// Forget drops the timers of all reservations that a history does not have. It must be called with what settlement has left, unless the
// write of that certainly failed: a later reservation for the same pod may come to have the same stamp before it is observed, since a
// stamp is moved by as little as it takes when clocks differ.
func (d *Deadlines) Forget(left *v1alpha1.AdmissionHistory) {
	kept := make(map[UIDHash]firstSeen, Open(left))
	for r := range Reservations(left) {
		if seen, ok := d.first[r.Hash]; ok {
			kept[r.Hash] = seen
		}
	}
	d.first = kept
}

// Passed tells whether the deadline has passed since this reservation was first observed with this stamp.
func (d *Deadlines) Passed(r Reservation, deadline time.Duration, now time.Time) bool {
	seen, ok := d.first[r.Hash]
	return ok && seen.stamp.Equal(r.Stamp) && !now.Before(seen.deadline(deadline))
}

// FirstSeen is when this reservation was first observed with this stamp; ok is false if it was not.
func (d *Deadlines) FirstSeen(r Reservation) (at time.Time, ok bool) {
	seen, ok := d.first[r.Hash]
	return seen.at, ok && seen.stamp.Equal(r.Stamp)
}

// TookEffect notes that the update of a reservation has, and may take so long to be done: the deadline is that from now on. It
// tells whether that was known already.
func (d *Deadlines) TookEffect(r Reservation, timeout time.Duration) (known bool) {
	seen, ok := d.first[r.Hash]
	if !ok || !seen.stamp.Equal(r.Stamp) {
		return false
	}
	known = seen.update > 0
	seen.update = timeout
	d.first[r.Hash] = seen
	return known
}

// Next returns the earliest time at which the deadline of an observed reservation passes; ok is false when
// there is none.
func (d *Deadlines) Next(deadline time.Duration) (next time.Time, ok bool) {
	for _, seen := range d.first {
		if at := seen.deadline(deadline); !ok || at.Before(next) {
			next, ok = at, true
		}
	}
	return next, ok
}

package aggregator

import (
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// countDelays determines how long a protector must not be counted, because removals that no stored reservation covers may still take
// effect. It is safe for concurrent use. One worker at a time counts a protector.
type countDelays struct {
	// restored is that of the start of the leadership.
	restored        uint64
	ownership       *ownership.Ownership
	deadlines       *reservationDeadlines
	initial         *initialCounts
	endedProtectors *endedProtectors
	monotonic       func() time.Time

	// cleared has the protectors whose counts were cleared, and void those whose counts are void.
	cleared ownership.Map[clearedEntry]
	void    ownership.Map[settleDelay]
}

// clearedEntry is an entry that was cleared, as it was first seen.
type clearedEntry struct {
	// at is on the monotonic clock.
	at time.Time
	// last is when the counts of the entry were taken. It distinguishes one clearing from another.
	last metav1.MicroTime
}

// afterClearing returns how long the pods of a protector whose entry was cleared must not be counted yet. Its reservations are lost. A pod
// whose removal was admitted before looks like any other until the admission deadline has passed, and a pod whose update was admitted
// until the update timeout has passed too (rule 4(b)).
func (d *countDelays) afterClearing(p *v1alpha1.PodProtector, stored *v1alpha1.PodProtectorCell) time.Duration {
	key := client.ObjectKeyFromObject(p)
	if stored.Discount != v1alpha1.DiscountCleared {
		d.cleared.Forget(key)
		return 0
	}
	now, last := d.monotonic(), stored.Aggregation.LastEventTime
	seen := d.cleared.Get(key)
	if seen.at.IsZero() || !seen.last.Equal(&last) { // another leader may have counted since, and its counts were cleared too
		seen = clearedEntry{at: now, last: last}
		d.cleared.Set(key, seen)
	}
	// The snapshot may be older at that time, so the pods are counted like a first count, with a live list.
	d.initial.forget(key)
	return max(seen.at.Add(d.deadlines.maxInFlight(p)).Sub(now), 0)
}

// settleDelay records since when a leadership has known that the counts of a protector are void.
type settleDelay struct {
	uid   types.UID
	since time.Time
}

// afterLoss returns how long a protector must not be counted yet. Reservations made with a protector that vanished, or in the
// lost history of a core, may be unknown. So the first valid count uses a list that is read when the admission deadline has
// passed, on this machine's clock, since the leadership observed that the counts are void. By then every removal that was admitted
// before has taken effect or never will (rules 10 and 11). An update that has taken effect may still restart a container until the update
// timeout has passed as well.
func (d *countDelays) afterLoss(key types.NamespacedName, p *v1alpha1.PodProtector, cell *v1alpha1.PodProtectorCell) time.Duration {
	isVoid := cell != nil && cell.Aggregation.Void
	if cell == nil {
		_, isRecreated := p.Annotations[v1alpha1.AnnotationRestored]
		isVoid = isRecreated || d.restored > 0 && d.monotonic().Sub(d.ownership.OwnedSince(p.Namespace)) < d.deadlines.maxInFlight(p)
	}
	if !isVoid {
		d.void.Forget(key)
		return 0
	}
	delay := d.void.Get(key)
	if delay.since.IsZero() || delay.uid != p.UID {
		delay = settleDelay{p.UID, d.monotonic()}
		d.void.Set(key, delay)
	}
	wait := delay.since.Add(d.deadlines.maxInFlight(p)).Sub(d.monotonic())
	if wait > 0 {
		d.initial.forget(key) // a list that was read earlier is too old
	}
	return wait
}

// afterDeletion returns how long a protector must not be counted yet because another protector of its name has just
// ended (rule 4).
func (d *countDelays) afterDeletion(key types.NamespacedName, p *v1alpha1.PodProtector, cell *v1alpha1.PodProtectorCell) time.Duration {
	if cell != nil {
		return 0
	}
	wait := d.endedProtectors.delayFor(p, d.deadlines.admissionDeadline()+quota.EscrowLifetime, d.monotonic())
	if wait > 0 {
		d.initial.forget(key) // for the same reason
	}
	return wait
}

// reservationDeadlines are the timers of the open reservations by protector (rule 4(b)). They end with the leadership. It is safe for
// concurrent use. One worker at a time uses the timers of a protector.
type reservationDeadlines struct {
	// admission is the Cell's admission deadline, in nanoseconds, as of the last heartbeat.
	admission atomic.Int64
	timers    ownership.Map[*quota.Deadlines]
}

func (d *reservationDeadlines) admissionDeadline() time.Duration {
	return time.Duration(d.admission.Load())
}

// maxInFlight returns how long admitted changes of a protector's pods that are no longer reserved may still make the pods
// unavailable.
func (d *reservationDeadlines) maxInFlight(p *v1alpha1.PodProtector) time.Duration {
	longest := d.admissionDeadline() + quota.EscrowLifetime
	if slices.ContainsFunc(p.Spec.Operations, isUpdate) {
		longest += p.Spec.AdmissionHistory.UpdateTimeoutOrDefault()
	}
	return longest
}

// observe records the reservations in the newest object of a protector, and returns their timers. It keeps none for a protector without
// reservations, as most are.
func (d *reservationDeadlines) observe(key types.NamespacedName, history *v1alpha1.AdmissionHistory, now time.Time) *quota.Deadlines {
	timers := d.of(key)
	timers.Observe(history, now)
	if quota.IsEmpty(history) {
		d.timers.Forget(key)
	} else {
		d.timers.Set(key, timers)
	}
	return timers
}

// of returns the timers of the reservations that were last observed.
func (d *reservationDeadlines) of(key types.NamespacedName) *quota.Deadlines {
	if timers := d.timers.Get(key); timers != nil {
		return timers
	}
	return &quota.Deadlines{}
}

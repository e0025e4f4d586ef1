package aggregator

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// A Cell that is being deleted is drained. From the next write on its pods count for nothing in other cells, which makes budgets smaller,
// and the webhook makes no new reservations in it. The aggregator removes a protector's entry when all of its reservations are settled,
// so that a later cell with the same pods counts none that is still being removed.

// startDraining starts that.
func (l *leadership) startDraining() {
	if !l.draining.Swap(true) {
		l.log.Info("Draining the cell")
		l.enqueueAll(l.owns)
	}
}

// drainEntry removes the cell from a protector, or marks it as draining while it has reservations.
func (l *leadership) drainEntry(p *v1alpha1.PodProtector) {
	cell := quota.CellOf(p, l.options.Cell)
	if cell == nil || !l.draining.Load() {
		return
	}
	if len(cell.AdmissionHistory.Buckets) > 0 {
		cell.Discount = v1alpha1.DiscountDraining
		return
	}
	quota.DropCell(p, l.options.Cell)
}

// openCheckInterval is how long after a read of the Cell the aggregator may create entries without reading it again.
const openCheckInterval = time.Second

// canAddEntries reports whether the Cell exists and is not being deleted. No component removes an entry that is created after the topology
// controller has released the Cell, so its counts would stay when the cluster is shut down. A heartbeat would notice that too late.
func (l *leadership) canAddEntries(ctx context.Context) (bool, error) {
	if l.draining.Load() {
		return false, nil
	}
	now := l.monotonic().Sub(l.beganAt)
	if now-time.Duration(l.lastOpen.Load()) < openCheckInterval {
		return true, nil
	}
	cell, _, err := l.readCell(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read Cell %s: %w", l.options.Cell, err)
	case cell.UID != l.cell.UID:
		l.stop(errRecreated)
		return false, nil
	case cell.DeletionTimestamp != nil:
		l.startDraining()
		return false, nil
	}
	l.lastOpen.Store(int64(now))
	return true, nil
}

// clearedEntry is an entry that was cleared, as it was first seen.
type clearedEntry struct {
	// at is on the monotonic clock.
	at time.Time
	// last is when the counts of the entry were taken. It distinguishes one clearing from another.
	last metav1.MicroTime
}

// clearedDelay returns how long the pods of a protector whose entry was cleared must not be counted yet. Its reservations are lost. A pod
// whose removal was admitted before looks like any other until the admission deadline has passed, and a pod whose update was admitted
// until the update timeout has passed too.
func (l *leadership) clearedDelay(p *v1alpha1.PodProtector, stored *v1alpha1.PodProtectorCell) time.Duration {
	key := keyOf(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	if stored.Discount != v1alpha1.DiscountCleared {
		delete(l.cleared, key)
		return 0
	}
	now, last := l.monotonic(), stored.Aggregation.LastEventTime
	seen, known := l.cleared[key]
	if !known || !seen.last.Equal(&last) { // another leader may have counted since, and its counts were cleared too
		seen = clearedEntry{at: now, last: last}
		l.cleared[key] = seen
	}
	// The snapshot may be older at that time, so the pods are counted like a first count, with a live list.
	delete(l.initialCounts, key)
	return max(seen.at.Add(l.maxInFlight(p)).Sub(now), 0)
}

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

// drain starts that.
func (t *term) drain() {
	if !t.draining.Swap(true) {
		t.log.Info("The cell is being removed, and waits for its reservations")
		t.enqueueAll(t.has)
	}
}

// depart removes the cell from a protector, or marks it as draining while it has reservations.
func (t *term) depart(p *v1alpha1.PodProtector) {
	cell := quota.CellOf(p, t.options.Cell)
	if cell == nil || !t.draining.Load() {
		return
	}
	if len(cell.AdmissionHistory.Buckets) > 0 {
		cell.Discount = v1alpha1.DiscountDraining
		return
	}
	quota.DropCell(p, t.options.Cell)
}

// openFor is how long after a read of the Cell the aggregator may create entries without reading it again.
const openFor = time.Second

// isOpen reports whether the Cell exists and is not being deleted. No component removes an entry that is created after the topology
// controller has released the Cell, so its counts would stay when the cluster is shut down. A heartbeat would notice that too late.
func (t *term) isOpen(ctx context.Context) (bool, error) {
	if t.draining.Load() {
		return false, nil
	}
	now := t.monotonic().Sub(t.began)
	if now-time.Duration(t.opened.Load()) < openFor {
		return true, nil
	}
	cell, _, err := t.readCell(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read Cell %s: %w", t.options.Cell, err)
	case cell.UID != t.cell.UID:
		t.end(errRecreated)
		return false, nil
	case cell.DeletionTimestamp != nil:
		t.drain()
		return false, nil
	}
	t.opened.Store(int64(now))
	return true, nil
}

// clearing is an entry that was cleared, as it was first seen.
type clearing struct {
	// at is on the monotonic clock.
	at time.Time
	// last is when the counts of the entry were taken. It distinguishes one clearing from another.
	last metav1.MicroTime
}

// heldBack returns how long the pods of a protector whose entry was cleared must not be counted yet. Its reservations are lost. A pod
// whose removal was admitted before looks like any other until the admission deadline has passed, and a pod whose update was admitted
// until the update timeout has passed too.
func (t *term) heldBack(p *v1alpha1.PodProtector, stored *v1alpha1.PodProtectorCell) time.Duration {
	key := keyOf(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	if stored.Discount != v1alpha1.DiscountCleared {
		delete(t.cleared, key)
		return 0
	}
	now, last := t.monotonic(), stored.Aggregation.LastEventTime
	seen, known := t.cleared[key]
	if !known || !seen.last.Equal(&last) { // another leader may have counted since, and its counts were cleared too
		seen = clearing{at: now, last: last}
		t.cleared[key] = seen
	}
	// The snapshot may be older at that time, so the pods are counted like a first count, with a live list.
	delete(t.firsts, key)
	return max(seen.at.Add(t.underWay(p)).Sub(now), 0)
}

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

// A Cell that is being deleted is drained: its pods count for nothing in other cells from the next write on, which makes
// budgets smaller, and nothing new is reserved in it. A protector's entry goes when all of its reservations are settled, so
// that a cell of the same pods that comes later counts none that is still on its way out.

// drain begins that.
func (t *term) drain() {
	if !t.draining.Swap(true) {
		t.log.Info("The cell is being removed, and waits for its reservations")
		t.enqueueAll(t.has)
	}
}

// depart takes the cell out of a protector, or says that it will be.
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

// openFor is how long a Cell may have entries after it was read.
const openFor = time.Second

// isOpen reports whether the Cell exists and is not being deleted. No component takes out an entry that is made after the topology
// controller has released the Cell, so that its counts would stay when the cluster is shut down. A heartbeat is too late to learn of that.
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

// clearing is an entry that was cleared, as it was seen first.
type clearing struct {
	// at is of the monotonic clock.
	at time.Time
	// last is when the counts were taken that it had, which tells one clearing from another.
	last metav1.MicroTime
}

// heldBack is how long the pods of a protector whose entry was cleared may not be counted yet. Its reservations are lost, so
// that a pod whose removal was admitted before looks like any other until the admission deadline has passed, and one that was
// updated until the time for that has, too.
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
	if !known || !seen.last.Equal(&last) { // another leader may have counted since, and that was cleared too
		seen = clearing{at: now, last: last}
		t.cleared[key] = seen
	}
	// What the snapshot shows then may be older: it is counted as for the first time, by a live list.
	delete(t.firsts, key)
	return max(seen.at.Add(t.underWay(p)).Sub(now), 0)
}

package aggregator

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/aggregator/shares"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
)

// A Cell that is being deleted is drained. From the next write on its pods count for nothing in other cells, which makes budgets smaller,
// and the webhook makes no new reservations in it. The aggregator removes a protector's entry when all of its reservations are settled,
// so that a later cell with the same pods counts none that is still being removed, and the shares of other cells have risen to the floor.

// cellEntries creates and removes the entries that a leadership has in the statuses of protectors. It is safe for concurrent use.
type cellEntries struct {
	// start has the Cell as it was at the start of the leadership.
	start startState
	// scope selects the pods that belong to the cell.
	scope scope.Scope
	// readCell reads the Cell, and the current version of the core, from the core's API server.
	readCell        func(ctx context.Context) (*v1alpha1.Cell, uint64, error)
	endedProtectors *endedProtectors
	// enqueueAll enqueues the existing protectors of the namespaces for which owns returns true.
	enqueueAll func(in func(namespace string) bool)
	owns       func(namespace string) bool
	monotonic  func() time.Time
	// stop ends the leadership, for a reason.
	stop context.CancelCauseFunc
	log  logr.Logger

	// draining reports that the Cell is being deleted.
	draining atomic.Bool
	// lastOpen is when the Cell was last read and could have entries, on the monotonic clock in nanoseconds since the start. It starts at
	// the time when the epoch was raised.
	lastOpen atomic.Int64
}

// startDraining begins to drain the cell.
func (e *cellEntries) startDraining() {
	if !e.draining.Swap(true) {
		e.log.Info("Draining the cell")
		e.enqueueAll(e.owns)
	}
}

// canHave reports whether protectors of a namespace may get an entry of the cell: the cell can have pods of the namespace, and the Cell is
// not being deleted.
func (e *cellEntries) canHave(ctx context.Context, namespace string) (bool, error) {
	if !e.scope.HasNamespace(namespace) {
		return false, nil
	}
	return e.canAdd(ctx)
}

// mayStore reports whether p, which before becomes, may be stored. Counting may have taken long, and the Cell may have been deleted meanwhile.
func (e *cellEntries) mayStore(ctx context.Context, before, p *v1alpha1.PodProtector) (bool, error) {
	isNew := quota.CellOf(before, e.start.cell.Name) == nil && quota.CellOf(p, e.start.cell.Name) != nil
	if !isNew {
		return true, nil
	}
	return e.canAdd(ctx)
}

// ensure returns the cell's part of the status, and creates it if it does not exist.
func (e *cellEntries) ensure(p *v1alpha1.PodProtector) *v1alpha1.PodProtectorCell {
	e.endedProtectors.recordCounted(p)
	if quota.CellOf(p, e.start.cell.Name) == nil {
		p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{CellID: e.start.cell.Name})
	}
	return quota.CellOf(p, e.start.cell.Name)
}

// drain drains the cell's entry in a protector, if the Cell is being deleted.
func (e *cellEntries) drain(p *v1alpha1.PodProtector) {
	if e.draining.Load() {
		shares.Drain(p, e.start.cell.Name, e.start.restored)
	}
}

// openCheckInterval is how long after a read of the Cell the aggregator may create entries without reading it again. The topology controller counts the
// entries of a deleted Cell later than that.
const openCheckInterval = time.Second

// canAdd reports whether the Cell exists and is not being deleted. No component removes an entry that is created after the topology
// controller has released the Cell, so its counts would stay when the cluster is shut down. A heartbeat would notice that too late.
func (e *cellEntries) canAdd(ctx context.Context) (bool, error) {
	if e.draining.Load() {
		return false, nil
	}
	now := e.monotonic().Sub(e.start.beganAt)
	if now-time.Duration(e.lastOpen.Load()) < openCheckInterval {
		return true, nil
	}
	cell, _, err := e.readCell(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read Cell %s: %w", e.start.cell.Name, err)
	case cell.UID != e.start.cell.UID:
		e.stop(errRecreated)
		return false, nil
	case cell.DeletionTimestamp != nil:
		e.startDraining()
		return false, nil
	}
	e.lastOpen.Store(int64(now))
	return true, nil
}

package aggregator

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// cellHeartbeat reports to the Cell that the leadership works, and checks that it can.
type cellHeartbeat struct {
	interval time.Duration
	snapshot *snapshot.Snapshot
	// isComplete reports whether the snapshot has all pods that the leadership counts. A heartbeat confirms all counts.
	isComplete func() bool
	// write writes one heartbeat into the Cell's status.
	write func(ctx context.Context) error
	// liveVersion asks the cell's API server for its current version.
	liveVersion func(ctx context.Context) (uint64, error)
	// enqueueOwned enqueues the protectors that the leadership has.
	enqueueOwned func()
	// stop ends the leadership, for a reason.
	stop context.CancelCauseFunc
	log  logr.Logger

	// mustProbe reports that a heartbeat must confirm that the cell answers, unreachable that the cell did not answer last, and leftStale
	// that a count was left as stale because of that.
	mustProbe, unreachable, leftStale atomic.Bool
}

// run writes the heartbeat of the leadership into the Cell's status until ctx ends.
func (h *cellHeartbeat) run(ctx context.Context) {
	wait.NonSlidingUntilWithContext(ctx, h.once, h.interval)
}

// once writes one heartbeat, unless the pods of some slots are still to be listed.
func (h *cellHeartbeat) once(ctx context.Context) {
	if !h.isComplete() {
		return
	}
	if err := h.checkCellAnswers(ctx); err != nil {
		h.log.Error(err, "Skipped the heartbeat: the API server of the cell is unreachable")
	} else if err := h.write(ctx); err != nil && ctx.Err() == nil {
		h.log.Error(err, "Failed to write the heartbeat")
	}
	if err := h.checkRestored(ctx); err != nil && ctx.Err() == nil {
		h.log.Error(err, "Failed to check whether the cell was restored")
	}
}

// checkCellAnswers checks that the cell's API server answers, for a Cell whose counts are discounted when stale. An aggregator that
// reports without reaching its cell would vouch for counts that it cannot confirm.
func (h *cellHeartbeat) checkCellAnswers(ctx context.Context) error {
	if !h.mustProbe.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, h.interval)
	defer cancel()
	h.unreachable.Store(true)
	if _, err := h.liveVersion(ctx); err != nil {
		return err
	}
	h.unreachable.Store(false)
	if h.leftStale.Swap(false) {
		h.enqueueOwned()
	}
	return nil
}

// isStillStale reports whether counts that were found to be stale still are.
func (h *cellHeartbeat) isStillStale(stored v1alpha1.Discount) bool {
	if stored != v1alpha1.DiscountStale || !h.mustProbe.Load() {
		return false
	}
	h.leftStale.Store(true) // set before unreachable is read: if the cell answers now, checkCellAnswers enqueues the protectors again
	return h.unreachable.Load()
}

// checkRestored ends the leadership if the cell was restored to a version before that of a live list by which pods were recorded as
// removed. The stream may not reveal it, because it resumes at a version that it had not reached before. Those pods exist
// again, and the counts would leave them out for as long as there are no events in the cell.
func (h *cellHeartbeat) checkRestored(ctx context.Context) error {
	unreached := h.snapshot.Unreached()
	if unreached == 0 {
		return nil
	}
	version, err := h.liveVersion(ctx)
	if err != nil {
		return err
	}
	if version < unreached {
		h.stop(fmt.Errorf("the version of the cell's pods went backwards, from %d to %d", unreached, version))
	}
	return nil
}

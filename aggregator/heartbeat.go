package aggregator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// runHeartbeat writes the heartbeat of the leadership into the Cell's status until ctx ends.
func (l *leadership) runHeartbeat(ctx context.Context) {
	ticker := time.NewTicker(l.options.Heartbeat)
	defer ticker.Stop()
	for {
		l.heartbeatOnce(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// heartbeatOnce writes one heartbeat, unless the pods of some slots are still to be listed.
func (l *leadership) heartbeatOnce(ctx context.Context) {
	if !l.isComplete() {
		return
	}
	if err := l.checkCellAnswers(ctx); err != nil {
		l.log.Error(err, "Skipped the heartbeat: the API server of the cell is unreachable")
	} else if err := l.writeHeartbeat(ctx, l.leadingCondition()); err != nil && ctx.Err() == nil {
		l.log.Error(err, "Failed to write the heartbeat")
	}
	if err := l.checkRestored(ctx); err != nil && ctx.Err() == nil {
		l.log.Error(err, "Failed to check whether the cell was restored")
	}
}

// checkCellAnswers checks that the cell's API server answers, for a Cell whose counts are discounted when stale. An aggregator that
// reports without reaching its cell would vouch for counts that it cannot confirm.
func (l *leadership) checkCellAnswers(ctx context.Context) error {
	if !l.mustProbe.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.options.Heartbeat)
	defer cancel()
	l.unreachable.Store(true)
	if _, err := l.liveVersion(ctx); err != nil {
		return err
	}
	l.unreachable.Store(false)
	if l.leftStale.Swap(false) {
		l.enqueueAll(l.owns)
	}
	return nil
}

// isStillStale reports whether counts that were found to be stale still are.
func (l *leadership) isStillStale(stored v1alpha1.Discount) bool {
	if stored != v1alpha1.DiscountStale || !l.mustProbe.Load() {
		return false
	}
	l.leftStale.Store(true) // set before unheard is read: if the cell answers now, probe enqueues the protectors again
	return l.unreachable.Load()
}

func (l *leadership) leadingCondition() metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAggregating,
		Message: fmt.Sprintf("%s counts the pods of this cell.", l.options.Identity),
	}
}

// reportRelease writes that the cell has no leader, until the next leader reports.
func (l *leadership) reportRelease(ctx context.Context, reason string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := l.writeHeartbeat(ctx, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAggregatorIdle,
		Message: fmt.Sprintf("%s no longer leads this cell: %s.", l.options.Identity, reason),
	})
	if err != nil {
		l.log.V(1).Info("Failed to report the release", "error", err.Error())
	}
}

// errRecreated ends a leadership whose Cell was deleted. A new Cell of that name may have other pods, and is not being
// deleted.
var errRecreated = errors.New("the Cell was deleted and created again")

// writeHeartbeat writes one heartbeat. If a later leader has written, it ends the leadership instead.
func (l *leadership) writeHeartbeat(ctx context.Context, ready metav1.Condition) error {
	if l.ownership != nil {
		return l.writeShardHeartbeat(ctx)
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cell := &v1alpha1.Cell{}
		if err := l.coreReader.Get(ctx, client.ObjectKey{Name: l.options.Cell}, cell); err != nil {
			return fmt.Errorf("read Cell %s: %w", l.options.Cell, err)
		}
		if cell.Status.Aggregator.Epoch > l.epoch {
			l.stop(errDeposed)
			return nil
		}
		if cell.UID != l.cell.UID {
			l.stop(errRecreated)
			return nil
		}
		if err := recordSeenVersion(cell); err != nil {
			l.stop(err)
			return nil
		}
		pods, protectors := l.snapshot.Size()
		l.applyCell(cell)
		l.metrics.pods.Set(float64(pods))
		l.metrics.protectors.Set(float64(protectors))
		l.metrics.forceDeletable.Set(float64(l.snapshot.ForceDeletable()))
		now := metav1.NewMicroTime(l.now())
		// A leader that recorded a restore may have a lower epoch than one of the lost history. The latter's leadership then
		// ends.
		restored := max(l.restored, parseVersion(cell.Status.Aggregator.RestoredVersion))
		cell.Status.Aggregator = v1alpha1.CellAggregator{
			Holder: l.options.Identity, Epoch: l.epoch, LastHeartbeat: &now,
			RestoredVersion: formatVersion(restored), SeenVersion: cell.Status.Aggregator.SeenVersion,
		}
		cell.Status.Pods = int32(min(pods, math.MaxInt32))
		cell.Status.Protectors = int32(min(protectors, math.MaxInt32))
		ready.ObservedGeneration = cell.Generation
		meta.SetStatusCondition(&cell.Status.Conditions, ready)
		return l.coreClient.Status().Update(ctx, cell)
	})
}

// applyCell applies the settings of the Cell.
func (l *leadership) applyCell(cell *v1alpha1.Cell) {
	l.admissionDeadline.Store(int64(cell.Spec.AdmissionDeadlineOrDefault()))
	l.snapshot.eventClock.setMode(cell.Spec.Settlement)
	l.triggerLabels.Store(matchingLabels(cell.Spec.PodSelector))
	l.mustProbe.Store(cell.Spec.WhenStale == v1alpha1.WhenStaleDiscount)
	if cell.DeletionTimestamp != nil {
		l.startDraining()
	}
}

// checkRestored ends the leadership if the cell was restored to a version before that of a live list by which pods were recorded as
// removed. The stream may not reveal it, because it resumes at a version that it had not reached before. Those pods exist
// again, and the counts would leave them out for as long as there are no events in the cell.
func (l *leadership) checkRestored(ctx context.Context) error {
	unreached := l.snapshot.Unreached()
	if unreached == 0 {
		return nil
	}
	version, err := l.liveVersion(ctx)
	if err != nil {
		return err
	}
	if version < unreached {
		l.stop(fmt.Errorf("the version of the cell's pods went backwards, from %d to %d", unreached, version))
	}
	return nil
}

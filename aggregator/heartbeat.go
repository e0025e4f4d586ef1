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

// report writes the heartbeat of the term into the Cell's status until ctx ends.
func (t *term) report(ctx context.Context) {
	beat := time.NewTicker(t.options.Heartbeat)
	defer beat.Stop()
	for {
		t.reportOnce(ctx)
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
	}
}

// reportOnce writes one heartbeat, unless the pods of some slots are still to be listed.
func (t *term) reportOnce(ctx context.Context) {
	if !t.isWhole() {
		return
	}
	if err := t.probe(ctx); err != nil {
		t.log.Error(err, "The cell does not answer, so that its counts are told to be stale in time")
	} else if err := t.beat(ctx, t.leading()); err != nil && ctx.Err() == nil {
		t.log.Error(err, "No heartbeat")
	}
	if err := t.checkPast(ctx); err != nil && ctx.Err() == nil {
		t.log.Error(err, "Whether the cell went back is not known")
	}
}

// probe checks that the cell's API server answers, for a Cell whose counts are discounted when stale. An aggregator that
// reports without reaching its cell would vouch for counts that it cannot confirm.
func (t *term) probe(ctx context.Context) error {
	if !t.vouches.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.options.Heartbeat)
	defer cancel()
	t.unheard.Store(true)
	if _, err := t.liveVersion(ctx); err != nil {
		return err
	}
	t.unheard.Store(false)
	if t.stale.Swap(false) {
		t.enqueueAll(t.has)
	}
	return nil
}

// silent reports whether counts that were found to be stale still are.
func (t *term) silent(was v1alpha1.Discount) bool {
	if was != v1alpha1.DiscountStale || !t.vouches.Load() {
		return false
	}
	t.stale.Store(true) // set before unheard is read: if the cell answers now, probe enqueues the protectors again
	return t.unheard.Load()
}

func (t *term) leading() metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAggregating,
		Message: fmt.Sprintf("%s counts the pods of this cell.", t.options.Identity),
	}
}

// farewell writes that the cell has no leader, until the next leader reports.
func (t *term) farewell(ctx context.Context, reason string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := t.beat(ctx, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAggregatorIdle,
		Message: fmt.Sprintf("%s no longer leads this cell: %s.", t.options.Identity, reason),
	})
	if err != nil {
		t.log.V(1).Info("No farewell", "error", err.Error())
	}
}

// errRecreated ends a leadership whose Cell was deleted. A new Cell of that name may have other pods, and is not being
// deleted.
var errRecreated = errors.New("the Cell was deleted and created again")

// beat writes one heartbeat. If a later leader has written, it ends the term instead.
func (t *term) beat(ctx context.Context, ready metav1.Condition) error {
	if t.tenure != nil {
		return t.beatShare(ctx)
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cell := &v1alpha1.Cell{}
		if err := t.live.Get(ctx, client.ObjectKey{Name: t.options.Cell}, cell); err != nil {
			return fmt.Errorf("read Cell %s: %w", t.options.Cell, err)
		}
		if cell.Status.Aggregator.Epoch > t.epoch {
			t.end(errDeposed)
			return nil
		}
		if cell.UID != t.cell.UID {
			t.end(errRecreated)
			return nil
		}
		if err := see(cell); err != nil {
			t.end(err)
			return nil
		}
		pods, protectors := t.snapshot.Size()
		t.heed(cell)
		t.metrics.pods.Set(float64(pods))
		t.metrics.protectors.Set(float64(protectors))
		t.metrics.forceDeletable.Set(float64(t.snapshot.ForceDeletable()))
		now := metav1.NewMicroTime(t.now())
		// A leader that recorded a restore may have a lower epoch than one of the lost history. The latter's term then
		// ends.
		restored := max(t.leadership.restored, parseVersion(cell.Status.Aggregator.RestoredVersion))
		cell.Status.Aggregator = v1alpha1.CellAggregator{
			Holder: t.options.Identity, Epoch: t.epoch, LastHeartbeat: &now,
			RestoredVersion: formatVersion(restored), SeenVersion: cell.Status.Aggregator.SeenVersion,
		}
		cell.Status.Pods = int32(min(pods, math.MaxInt32))
		cell.Status.Protectors = int32(min(protectors, math.MaxInt32))
		ready.ObservedGeneration = cell.Generation
		meta.SetStatusCondition(&cell.Status.Conditions, ready)
		return t.core.Status().Update(ctx, cell)
	})
}

// heed applies the settings of the Cell.
func (t *term) heed(cell *v1alpha1.Cell) {
	t.admissionDeadline.Store(int64(cell.Spec.AdmissionDeadlineOrDefault()))
	t.snapshot.hearing.heed(cell.Spec.Settlement)
	t.triggerLabels.Store(sampleOf(cell.Spec.PodSelector))
	t.vouches.Store(cell.Spec.WhenStale == v1alpha1.WhenStaleDiscount)
	if cell.DeletionTimestamp != nil {
		t.drain()
	}
}

// checkPast ends the term if the cell was restored to a version before that of a live list by which pods were recorded as
// removed. The stream may not reveal it, because it resumes at a version that it had not reached before. Those pods exist
// again, and the counts would leave them out for as long as there are no events in the cell.
func (t *term) checkPast(ctx context.Context) error {
	unreached := t.snapshot.Unreached()
	if unreached == 0 {
		return nil
	}
	version, err := t.liveVersion(ctx)
	if err != nil {
		return err
	}
	if version < unreached {
		t.end(fmt.Errorf("the version of the cell's pods went backwards, from %d to %d", unreached, version))
	}
	return nil
}

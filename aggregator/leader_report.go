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

	"github.com/breakwater-k8s/breakwater/aggregator/versions"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// leaderReport writes the status of a Cell that one leader counts alone (rule 5).
type leaderReport struct {
	l     *leadership
	epoch int64
}

// writeLeading writes one heartbeat.
func (r *leaderReport) writeLeading(ctx context.Context) error {
	return r.write(ctx, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAggregating,
		Message: fmt.Sprintf("%s counts the pods of this cell.", r.l.aggregator.options.Identity),
	})
}

// writeReleased writes that the cell has no leader, until the next leader reports.
func (r *leaderReport) writeReleased(ctx context.Context, reason string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := r.write(ctx, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAggregatorIdle,
		Message: fmt.Sprintf("%s no longer leads this cell: %s.", r.l.aggregator.options.Identity, reason),
	})
	if err != nil {
		r.l.log.V(1).Info("Failed to report the release", "error", err.Error())
	}
}

// errRecreated ends a leadership whose Cell was deleted. A new Cell of that name may have other pods, and is not being
// deleted.
var errRecreated = errors.New("the Cell was deleted and created again")

// write writes one report. If a later leader has written, it ends the leadership instead.
func (r *leaderReport) write(ctx context.Context, ready metav1.Condition) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cell := &v1alpha1.Cell{}
		if err := r.l.aggregator.core.reader.Get(ctx, client.ObjectKey{Name: r.l.start.cell.Name}, cell); err != nil {
			return fmt.Errorf("read Cell %s: %w", r.l.start.cell.Name, err)
		}
		if cell.Status.Aggregator.Epoch > r.epoch {
			r.l.stop(errDeposed)
			return nil
		}
		if cell.UID != r.l.start.cell.UID {
			r.l.stop(errRecreated)
			return nil
		}
		if err := versions.RecordSeen(cell); err != nil {
			r.l.stop(err)
			return nil
		}
		r.l.applyCell(cell)
		pods, protectors := r.l.aggregator.metrics.recordSizes(r.l.snapshot)
		now := metav1.NewMicroTime(r.l.aggregator.clocks.now())
		// A leader that recorded a restore may have a lower epoch than one of the lost history. The latter's leadership then
		// ends.
		restored := max(r.l.start.restored, versions.Parse(cell.Status.Aggregator.RestoredVersion))
		cell.Status.Aggregator = v1alpha1.CellAggregator{
			Holder: r.l.aggregator.options.Identity, Epoch: r.epoch, LastHeartbeat: &now,
			RestoredVersion: versions.Format(restored), SeenVersion: cell.Status.Aggregator.SeenVersion,
		}
		cell.Status.Pods = int32(min(pods, math.MaxInt32))
		cell.Status.Protectors = int32(min(protectors, math.MaxInt32))
		ready.ObservedGeneration = cell.Generation
		meta.SetStatusCondition(&cell.Status.Conditions, ready)
		return r.l.aggregator.core.client.Status().Update(ctx, cell)
	})
}

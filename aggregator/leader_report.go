package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/versions"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// leaderReport writes the status of a Cell that one leader counts alone (rule 5).
type leaderReport struct {
	l     *leadership
	epoch int64
}

// writeLeading writes one heartbeat.
func (r *leaderReport) writeLeading(ctx context.Context) error {
	now := metav1.NewMicroTime(r.l.aggregator.clocks.now())
	return r.write(ctx, &now, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAggregating,
		Message: fmt.Sprintf("%s counts the pods of this cell.", r.l.aggregator.options.Identity),
	})
}

// writeReleased writes that the cell has no leader, until the next leader reports. It is no heartbeat, which would confirm all counts.
func (r *leaderReport) writeReleased(ctx context.Context, reason string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := r.write(ctx, nil, metav1.Condition{
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

// write writes one report, with a heartbeat if it is not nil. If a later leader has written, or has recorded a restore of the core, it ends the leadership
// instead: a restored core issues epochs a second time, so that a leader of the lost history may have a higher one.
func (r *leaderReport) write(ctx context.Context, heartbeat *metav1.MicroTime, ready metav1.Condition) error {
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
		if versions.Parse(cell.Status.Aggregator.RestoredVersion) > r.l.start.restored {
			r.l.stop(versions.ErrRestored)
			return nil
		}
		if err := versions.RecordSeen(cell); err != nil {
			r.l.stop(err)
			return nil
		}
		r.l.applyCell(cell)
		pods, protectors := r.l.aggregator.metrics.recordSizes(r.l.snapshot)
		if heartbeat == nil {
			heartbeat = cell.Status.Aggregator.LastHeartbeat
		}
		cell.Status.Aggregator = v1alpha1.CellAggregator{
			Holder: r.l.aggregator.options.Identity, Epoch: r.epoch, LastHeartbeat: heartbeat,
			RestoredVersion: versions.Format(r.l.start.restored), SeenVersion: cell.Status.Aggregator.SeenVersion,
		}
		cell.Status.Pods, cell.Status.Protectors = quota.Saturate(pods), quota.Saturate(protectors)
		ready.ObservedGeneration = cell.Generation
		meta.SetStatusCondition(&cell.Status.Conditions, ready)
		return r.l.aggregator.core.client.Status().Update(ctx, cell)
	})
}

package aggregator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/aggregator/versions"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// leaderReport writes the status of a Cell that one leader counts alone (rule 5).
type leaderReport struct {
	identity   string
	epoch      int64
	start      startState
	coreClient client.Client
	coreReader client.Reader
	snapshot   *snapshot.Snapshot
	metrics    *metrics
	// applyCell applies the settings of the Cell.
	applyCell func(*v1alpha1.Cell)
	now       func() time.Time
	// stop ends the leadership, for a reason.
	stop context.CancelCauseFunc
	log  logr.Logger
}

// writeLeading writes one heartbeat.
func (r *leaderReport) writeLeading(ctx context.Context) error {
	return r.write(ctx, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAggregating,
		Message: fmt.Sprintf("%s counts the pods of this cell.", r.identity),
	})
}

// writeReleased writes that the cell has no leader, until the next leader reports.
func (r *leaderReport) writeReleased(ctx context.Context, reason string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := r.write(ctx, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAggregatorIdle,
		Message: fmt.Sprintf("%s no longer leads this cell: %s.", r.identity, reason),
	})
	if err != nil {
		r.log.V(1).Info("Failed to report the release", "error", err.Error())
	}
}

// errRecreated ends a leadership whose Cell was deleted. A new Cell of that name may have other pods, and is not being
// deleted.
var errRecreated = errors.New("the Cell was deleted and created again")

// write writes one report. If a later leader has written, it ends the leadership instead.
func (r *leaderReport) write(ctx context.Context, ready metav1.Condition) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cell := &v1alpha1.Cell{}
		if err := r.coreReader.Get(ctx, client.ObjectKey{Name: r.start.cell.Name}, cell); err != nil {
			return fmt.Errorf("read Cell %s: %w", r.start.cell.Name, err)
		}
		if cell.Status.Aggregator.Epoch > r.epoch {
			r.stop(errDeposed)
			return nil
		}
		if cell.UID != r.start.cell.UID {
			r.stop(errRecreated)
			return nil
		}
		if err := versions.RecordSeen(cell); err != nil {
			r.stop(err)
			return nil
		}
		r.applyCell(cell)
		pods, protectors := r.metrics.recordSizes(r.snapshot)
		now := metav1.NewMicroTime(r.now())
		// A leader that recorded a restore may have a lower epoch than one of the lost history. The latter's leadership then
		// ends.
		restored := max(r.start.restored, versions.Parse(cell.Status.Aggregator.RestoredVersion))
		cell.Status.Aggregator = v1alpha1.CellAggregator{
			Holder: r.identity, Epoch: r.epoch, LastHeartbeat: &now,
			RestoredVersion: versions.Format(restored), SeenVersion: cell.Status.Aggregator.SeenVersion,
		}
		cell.Status.Pods = int32(min(pods, math.MaxInt32))
		cell.Status.Protectors = int32(min(protectors, math.MaxInt32))
		ready.ObservedGeneration = cell.Generation
		meta.SetStatusCondition(&cell.Status.Conditions, ready)
		return r.coreClient.Status().Update(ctx, cell)
	})
}

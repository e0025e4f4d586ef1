package topology

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/heartbeat"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// Clearer removes dead cells from the protectors that request it by AnnotationRemoveCell.
type Clearer struct{ *Reconciler }

// clearRetry is how long Clearer waits before it checks again, if it could not determine yet whether a cell is dead.
const clearRetry = time.Second

// Reconcile implements reconcile.Reconciler.
func (c Clearer) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	p := &v1alpha1.PodProtector{}
	if err := c.Live.Get(ctx, request.NamespacedName, p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	name := p.Annotations[v1alpha1.AnnotationRemoveCell]
	if name == "" {
		return reconcile.Result{}, nil
	}
	entry := quota.CellOf(p, name)
	if entry == nil || entry.Discount == v1alpha1.DiscountCleared {
		return c.finish(ctx, p, corev1.EventTypeNormal, "NothingToRemove", fmt.Sprintf("The protector has no entry of cell %q.", name))
	}
	cell := &v1alpha1.Cell{}
	err := c.Live.Get(ctx, client.ObjectKey{Name: name}, cell)
	exists := !apierrors.IsNotFound(err)
	if exists && err != nil {
		return reconcile.Result{}, fmt.Errorf("get Cell %s: %w", name, err)
	}
	if exists {
		switch c.observe(cell).stateFor(p.Namespace) {
		case heartbeat.Unknown:
			return reconcile.Result{RequeueAfter: clearRetry}, nil
		case heartbeat.Alive:
			return c.finish(ctx, p, corev1.EventTypeWarning, "CellAlive", fmt.Sprintf(
				"Cell %q was not cleared: its aggregator reported within the last %s. Stop the aggregator first, or delete the Cell, which drains it.",
				name, cell.Spec.StaleAfterOrDefault()))
		}
	}
	cells := &v1alpha1.CellList{} // rule 11: a late cache does not show that the core was restored, so that the shares are void
	if err := c.Live.List(ctx, cells); err != nil {
		return reconcile.Result{}, fmt.Errorf("list Cells: %w", err)
	}
	if !quota.MayDropCell(p, name, status.RestoredVersion(cells.Items...)) {
		return c.waitForShares(ctx, p, entry)
	}
	reserved, counted := quota.Open(&entry.AdmissionHistory), entry.Aggregation.CountedReplicas
	if exists {
		clearEntry(entry)
	} else {
		quota.DropCell(p, name)
	}
	if stored, err := c.store(ctx, p); err != nil || !stored {
		return reconcile.Result{RequeueAfter: clearRetry}, err
	}
	return c.finish(ctx, p, corev1.EventTypeWarning, "CellCleared", fmt.Sprintf(
		"Cell %q was cleared because of the annotation %s: its %s and %s were dropped.",
		name, v1alpha1.AnnotationRemoveCell, printable.Count(int(counted), "counted pod"), printable.Count(reserved, "reservation")))
}

// waitForShares makes the shares of the other cells rise until they keep the floor without a dead one (rule S3).
func (c Clearer) waitForShares(ctx context.Context, p *v1alpha1.PodProtector, entry *v1alpha1.PodProtectorCell) (reconcile.Result, error) {
	if entry.Discount == v1alpha1.DiscountDraining {
		return reconcile.Result{RequeueAfter: clearRetry}, nil
	}
	entry.Discount = v1alpha1.DiscountDraining // the aggregator removes it, if the cell is not dead after all
	stored, err := c.store(ctx, p)
	if stored {
		c.Events.Eventf(p, nil, corev1.EventTypeNormal, "WaitingForShares", "Clear",
			"Cell %q is cleared when the shares of the other cells keep the floor without it.", entry.CellID)
	}
	return reconcile.Result{RequeueAfter: clearRetry}, err
}

// store writes the status of a protector. It reports false if the protector has changed since it was read.
func (c Clearer) store(ctx context.Context, p *v1alpha1.PodProtector) (bool, error) {
	quota.Summarize(p)
	err := c.Client.Status().Update(ctx, p)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("clear a cell: %w", err)
	}
	return true, nil
}

// clearEntry keeps of an entry only its last writer, which fences off earlier leaders, and that it was cleared.
func clearEntry(entry *v1alpha1.PodProtectorCell) {
	aggregation, history := entry.Aggregation, entry.AdmissionHistory
	quota.DropReservations(&history)
	*entry = v1alpha1.PodProtectorCell{CellID: entry.CellID, Discount: v1alpha1.DiscountCleared, Aggregation: v1alpha1.Aggregation{
		SnapshotVersion: aggregation.SnapshotVersion, SettledVersion: aggregation.SettledVersion, LastEventTime: aggregation.LastEventTime,
		Epoch: aggregation.Epoch, Holder: aggregation.Holder,
	}, AdmissionHistory: history}
}

// finish removes the annotation, and emits an event with the reason.
func (c Clearer) finish(ctx context.Context, p *v1alpha1.PodProtector, kind, reason, note string) (reconcile.Result, error) {
	before := p.DeepCopy()
	delete(p.Annotations, v1alpha1.AnnotationRemoveCell)
	err := c.Client.Patch(ctx, p, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: clearRetry}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("remove the annotation: %w", err)
	}
	c.Events.Eventf(before, nil, kind, reason, "Clear", "%s", note)
	return reconcile.Result{}, nil
}

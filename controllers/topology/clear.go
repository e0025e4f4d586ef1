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
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Clearer removes dead cells from the protectors that request it by AnnotationRemoveCell.
type Clearer struct{ *Reconciler }

// ask is how long Clearer waits before it checks again, if it could not determine yet whether a cell is dead.
const ask = time.Second

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
		return c.done(ctx, p, corev1.EventTypeNormal, "NothingToRemove", fmt.Sprintf("The protector has nothing of a cell %q.", name))
	}
	cell := &v1alpha1.Cell{}
	err := c.Live.Get(ctx, client.ObjectKey{Name: name}, cell)
	there := !apierrors.IsNotFound(err)
	if there && err != nil {
		return reconcile.Result{}, fmt.Errorf("get Cell %s: %w", name, err)
	}
	if there {
		switch c.observe(cell).of(p.Namespace) {
		case heartbeat.Unknown:
			return reconcile.Result{RequeueAfter: ask}, nil
		case heartbeat.Alive:
			return c.done(ctx, p, corev1.EventTypeWarning, "CellAlive", fmt.Sprintf(
				"Cell %q is not cleared: its aggregator has reported within %s. Stop it first, or delete the Cell, which drains it.",
				name, cell.Spec.StaleAfterOrDefault()))
		}
	}
	lost, counted := quota.Open(&entry.AdmissionHistory), entry.Aggregation.CountedReplicas
	if there {
		blank(entry)
	} else {
		quota.DropCell(p, name)
	}
	quota.Summarize(p)
	if err := c.Client.Status().Update(ctx, p); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return reconcile.Result{RequeueAfter: ask}, nil
		}
		return reconcile.Result{}, fmt.Errorf("clear cell %s: %w", name, err)
	}
	return c.done(ctx, p, corev1.EventTypeWarning, "CellCleared", fmt.Sprintf(
		"Cell %q was cleared, as the annotation %s asked: %d counted pods and %d reservations of it are forgotten.",
		name, v1alpha1.AnnotationRemoveCell, counted, lost))
}

// blank keeps of an entry only its last writer, which fences off earlier leaders, and that it was cleared.
func blank(entry *v1alpha1.PodProtectorCell) {
	was := entry.Aggregation
	*entry = v1alpha1.PodProtectorCell{CellID: entry.CellID, Discount: v1alpha1.DiscountCleared, Aggregation: v1alpha1.Aggregation{
		SnapshotVersion: was.SnapshotVersion, SettledVersion: was.SettledVersion, LastEventTime: was.LastEventTime,
		Epoch: was.Epoch, Holder: was.Holder,
	}}
}

// done removes the annotation, and emits an event with the reason.
func (c Clearer) done(ctx context.Context, p *v1alpha1.PodProtector, kind, reason, note string) (reconcile.Result, error) {
	before := p.DeepCopy()
	delete(p.Annotations, v1alpha1.AnnotationRemoveCell)
	err := c.Client.Patch(ctx, p, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: ask}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("take off the annotation: %w", err)
	}
	c.Events.Eventf(before, nil, kind, reason, "Clear", "%s", note)
	return reconcile.Result{}, nil
}

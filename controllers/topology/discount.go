package topology

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/heartbeat"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// applyDiscount marks a silent cell in the protectors, if its Cell requests that. The cell's aggregator removes the mark when it has counted.
// discount itself removes it only if the Cell now trusts a silent cell.
func (r *Reconciler) applyDiscount(ctx context.Context, cell *v1alpha1.Cell, current report) error {
	before, after := v1alpha1.DiscountStale, v1alpha1.Discount("")
	if cell.Spec.WhenStale == v1alpha1.WhenStaleDiscount {
		if current.state != heartbeat.Silent {
			return nil
		}
		before, after = after, before
	}
	isAffected := func(p *v1alpha1.PodProtector) bool {
		return after == "" || current.stateFor(p.Namespace) == heartbeat.Silent
	}
	protectors, err := r.listEntries(ctx, cell.Name, before, isAffected)
	if err != nil || len(protectors) == 0 {
		return err
	}
	if after == "" { // rule 17: a late cache may show that a cell is trusted which other cells must not rely on any more
		live, err := r.readLive(ctx, cell)
		if err != nil || live == nil || live.Spec.WhenStale == v1alpha1.WhenStaleDiscount {
			return err
		}
	}
	return r.updateEntries(ctx, protectors, func(p *v1alpha1.PodProtector) { quota.CellOf(p, cell.Name).Discount = after })
}

// readLive returns a Cell from the API server; nil if it was deleted, or another one has its name.
func (r *Reconciler) readLive(ctx context.Context, cell *v1alpha1.Cell) (*v1alpha1.Cell, error) {
	live := &v1alpha1.Cell{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cell), live); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get the Cell from the API server: %w", err)
	} else if err != nil || live.UID != cell.UID {
		return nil, nil
	}
	return live, nil
}

// listEntries returns the protectors concerned whose entries of a cell have the given discount. They belong to the cache.
func (r *Reconciler) listEntries(
	ctx context.Context, cell string, discount v1alpha1.Discount, isAffected func(*v1alpha1.PodProtector) bool,
) (found []*v1alpha1.PodProtector, err error) {
	protectors := &v1alpha1.PodProtectorList{}
	if err := r.Client.List(ctx, protectors, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PodProtectors: %w", err)
	}
	for i := range protectors.Items {
		if entry := quota.CellOf(&protectors.Items[i], cell); entry != nil && entry.Discount == discount && isAffected(&protectors.Items[i]) {
			found = append(found, &protectors.Items[i])
		}
	}
	return found, nil
}

// updateEntries changes protectors of listEntries, each by compare-and-swap. A protector that another client writes at the same time is retried at the
// next check.
func (r *Reconciler) updateEntries(ctx context.Context, protectors []*v1alpha1.PodProtector, change func(*v1alpha1.PodProtector)) error {
	var failed []error
	for _, cached := range protectors {
		p := cached.DeepCopy()
		change(p)
		quota.Summarize(p)
		if err := r.Client.Status().Update(ctx, p); client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("PodProtector %s/%s: %w", p.Namespace, p.Name, err))
		}
	}
	return errors.Join(failed...)
}

// lastEntries is how long after the deletion of a Cell its aggregator may add entries to protectors. It may have read the Cell up to a second before, and
// no component would remove an entry of a Cell that is gone.
const lastEntries = 3 * time.Second

// waitForEntries returns how long a deleted Cell must not be released yet.
func (r *Reconciler) waitForEntries(cell *v1alpha1.Cell) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	stored, now := r.cellStates[cell.Name], r.Monotonic()
	if stored.key != string(cell.UID) {
		r.forgetHeartbeats(stored.key)
		stored = cellState{key: string(cell.UID)}
	}
	if stored.deletionSeen.IsZero() {
		stored.deletionSeen = now
	}
	r.cellStates[cell.Name] = stored
	return stored.deletionSeen.Add(lastEntries).Sub(now)
}

// releaseCell removes the finalizer of a deleted Cell once no protector has an entry of it. The cell's aggregator removes the entries; if the
// aggregator is dead, an operator does.
func (r *Reconciler) releaseCell(ctx context.Context, cell *v1alpha1.Cell) error {
	if !controllerutil.ContainsFinalizer(cell, v1alpha1.FinalizerCell) {
		return nil
	}
	// Rule 11: the cache may show a deletion that never happened, or that of a former Cell of the name.
	if live, err := r.readLive(ctx, cell); err != nil || live == nil || live.DeletionTimestamp == nil {
		return err
	}
	// A cleared entry has no content to wait for.
	always := func(*v1alpha1.PodProtector) bool { return true }
	cleared, err := r.listEntries(ctx, cell.Name, v1alpha1.DiscountCleared, always)
	if err != nil {
		return err
	}
	if err := r.updateEntries(ctx, cleared, func(p *v1alpha1.PodProtector) { quota.DropCell(p, cell.Name) }); err != nil {
		return err
	}
	remaining, err := r.countEntries(ctx, r.Client, cell.Name)
	if err == nil && remaining == 0 {
		remaining, err = r.countEntries(ctx, r.Live, cell.Name) // a cache may lag
	}
	if err != nil || remaining > 0 {
		log.FromContext(ctx).V(1).Info("Waiting for protectors before the release of the Cell", "protectors", remaining)
		return err
	}
	err = clusters.DropFinalizer(ctx, r.Client, cell, v1alpha1.FinalizerCell, Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		r.Events.Eventf(cell, nil, corev1.EventTypeNormal, "CellRemoved", "Release", "No PodProtector has an entry of the cell any more.")
	}
	return err
}

// countEntries counts the protectors that have an entry of a cell, or may get one: a protector that was recreated after it vanished does
// not have its entries back yet.
func (r *Reconciler) countEntries(ctx context.Context, from client.Reader, cell string) (int, error) {
	protectors := &v1alpha1.PodProtectorList{}
	if err := from.List(ctx, protectors, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list PodProtectors: %w", err)
	}
	count := 0
	for i := range protectors.Items {
		if p := &protectors.Items[i]; quota.CellOf(p, cell) != nil || quota.IsRestorePending(p) {
			count++
		}
	}
	return count, nil
}

package shares

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/versions"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/floorshare"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Keeper performs the steps by which the shares of the cell change: see package floorshare, and the order of writes there. A nil
// Keeper performs none. It is safe for concurrent use. One worker at a time handles a protector.
type Keeper struct {
	Cell string
	// Shares reads and writes the shares in the cell's cluster. Its reads may lag, since every write is a compare-and-swap. Live reads where
	// that is not enough.
	Shares client.Client
	Live   client.Reader
	// Core reads live from the core.
	Core client.Reader
	// Version and Restored are the versions of the core at the start of the leadership, and of its last restore.
	Version, Restored uint64
	// CoreUID identifies the core; empty if unknown.
	CoreUID string
	// Current returns the Cell.
	Current func() *v1alpha1.Cell
	// Draining reports whether the Cell is being deleted.
	Draining func() bool
	// Owns reports whether the leadership has the protectors of a namespace.
	Owns func(namespace string) bool
	// Queue is the queue of the leadership's protectors.
	Queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	Log   logr.Logger

	// compared are the shares that needed no further step.
	compared comparedShares
	// syncing makes one call of syncCell at a time.
	syncing singleflight.Group
}

// Step performs or begins the next step of a protector: before is the stored protector, p its new version. The caller writes p even after an error, unless
// the error IsOutdated, and then calls finish, if it is not nil. After an error, Step resets the cell's entry in p to that of before, in which the number of
// pods may only decrease. Without one, it calls drain, which drains the entry of a cell that leaves: not before its share is closed (rule S6).
func (k *Keeper) Step(
	ctx context.Context, before, p *v1alpha1.PodProtector, drain func(*v1alpha1.PodProtector),
) (finish func(context.Context) error, err error) {
	finish, err = k.prepare(ctx, before, p)
	if err == nil {
		drain(p)
	} else if !IsOutdated(err) {
		lowerCounts(before, p, k.Cell)
	}
	return finish, err
}

// ShareRetryInterval is the time after which a step of a share that met another write is tried again.
const ShareRetryInterval = 100 * time.Millisecond

// IsOutdated reports whether an error means that the share was changed or deleted since it was read.
func IsOutdated(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}

// prepare performs or begins the next step of a protector. before is the stored protector, and p is its new version, which was just aggregated, and which
// the caller writes. If the share must be written first, prepare does that. If p must be written first, finish writes the share.
func (k *Keeper) prepare(ctx context.Context, before, p *v1alpha1.PodProtector) (finish func(context.Context) error, err error) {
	cell := k.cellOf(p)
	if cell == nil {
		return nil, nil
	}
	recorded := quota.SharesOf(before, k.Restored)
	undone := quota.CellOf(before, k.Cell) == nil || recorded.IsVoid(k.Cell)
	stored, err := k.read(ctx, recorded, undone, p)
	if err != nil {
		return nil, fmt.Errorf("read the share of the cell: %w", err)
	}
	if err := k.followSpec(ctx, p, stored); err != nil {
		return nil, err
	}
	// record comes first: presumeReserved adds to its reservations by its counts, and next decides by both. fence writes only a share that p does not record,
	// which these two ignore. It comes before p is written with valid counts, and before the step, which replaces the version that fence writes.
	k.record(cell, stored)
	k.presumeReserved(quota.CellOf(before, k.Cell), cell, stored)
	if err := k.fence(ctx, quota.CellOf(before, k.Cell), cell, stored); err != nil {
		return nil, err
	}
	shares := quota.SharesOf(p, k.Restored)
	local, step := k.next(shares, undone, p, stored)
	if step.Kind == floorshare.Confirm && !local.Closed {
		if err := k.checkRestored(ctx, stored); err != nil {
			return nil, err
		}
	}
	if step.Kind != floorshare.Nothing {
		k.Log.V(1).Info("Moving share", "protector", client.ObjectKeyFromObject(p), "step", step.Kind, "share", step.Floor)
	}
	return k.perform(ctx, shares, p, stored, step)
}

// perform makes the write of the share by which a step begins, and records in p what it changes. shares describes p. finish is the write of the share that
// follows that of p; nil if none does.
func (k *Keeper) perform(
	ctx context.Context, shares *floorshare.Protector, p, stored *v1alpha1.PodProtector, step floorshare.Step,
) (finish func(context.Context) error, err error) {
	if step.Kind == floorshare.Create || step.Kind == floorshare.Enter {
		if err := k.syncCell(ctx); errors.Is(err, errOtherPods) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	cell := quota.CellOf(p, k.Cell)
	if step.Kind == floorshare.Enter && quota.Escrowed(&cell.AdmissionHistory) > 0 {
		return nil, nil // reservations without pods cannot move to the share. Their holders name them or give them back soon, and an event follows
	}
	switch step.Kind {
	case floorshare.Create:
		return nil, k.create(ctx, p)
	case floorshare.Delete:
		return nil, k.delete(ctx, stored)
	case floorshare.Raise:
		return nil, k.raise(ctx, cell, stored, step.Floor)
	case floorshare.Confirm: // removals may be in flight that a closed share does not know
		stored.Spec.ShareOf.Recreated = k.isClosed(stored)
		return nil, k.raise(ctx, cell, stored, step.Floor)
	case floorshare.Leave:
		return nil, k.leave(ctx, cell, stored)
	case floorshare.Lower, floorshare.Enter:
		if !shares.MayRecord(k.Cell, step.Floor) {
			return nil, nil
		}
		k.recordShare(cell, step.Floor)
		if step.Kind == floorshare.Lower {
			return func(ctx context.Context) error { return k.lower(ctx, stored, step.Floor) }, nil
		}
		return func(ctx context.Context) error { return k.open(ctx, p, stored, step.Floor) }, nil
	default:
		return nil, nil
	}
}

// read returns the share of the cell; nil if there is none. It reads from the API server what the write of p relies on: a cache could hide that the share
// was opened or closed, or removals that it has admitted.
func (k *Keeper) read(ctx context.Context, recorded *floorshare.Protector, undone bool, p *v1alpha1.PodProtector) (*v1alpha1.PodProtector, error) {
	stored, err := k.find(ctx, k.Shares, p)
	if err != nil {
		return nil, err
	}
	shares := quota.SharesOf(p, k.Restored)
	local, step := k.next(shares, undone, p, stored)
	if !floorshare.NeedsLive(recorded, shares, k.Cell, local, step) {
		return stored, nil
	}
	return k.find(ctx, k.Live, p)
}

// next returns the stored share of a protector, which records shares, and the next step by it. undone is floorshare.Local.Undone.
func (k *Keeper) next(shares *floorshare.Protector, undone bool, p, stored *v1alpha1.PodProtector) (floorshare.Local, floorshare.Step) {
	local := k.localOf(quota.CellOf(p, k.Cell), stored)
	local.Undone = undone
	return local, floorshare.Next(shares, k.Cell, local, k.wantsShare(p))
}

// fence writes a share that the protector does not record before the counts of the cell are valid again after a restore of the core, so that no
// process of the lost history can still open it (rule S6).
func (k *Keeper) fence(ctx context.Context, before, cell *v1alpha1.PodProtectorCell, stored *v1alpha1.PodProtector) error {
	if stored == nil || cell.Share != nil || cell.Aggregation.Void || before == nil || !before.Aggregation.Void {
		return nil
	}
	return k.setFloor(ctx, stored, floorOfShare(stored))
}

// cellOf returns the entry of the cell; nil if there is none, or no keeper.
func (k *Keeper) cellOf(p *v1alpha1.PodProtector) *v1alpha1.PodProtectorCell {
	if k == nil || p.Spec.ShareOf != nil {
		return nil
	}
	return quota.CellOf(p, k.Cell)
}

// wantsShare reports whether the cell should have a share.
func (k *Keeper) wantsShare(p *v1alpha1.PodProtector) bool {
	return quota.WantsShares(p) && p.DeletionTimestamp == nil && !k.Draining()
}

// checkRestored returns a conflict while an open share may be from before a restore of its cluster, and the aggregator that counts for shares has
// not marked it as void (rule S5). Other cells may rely on pods of the cell that such a share does not keep.
func (k *Keeper) checkRestored(ctx context.Context, share *v1alpha1.PodProtector) error {
	cell, now, err := versions.ReadCell(ctx, k.Live, k.Cell)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read whether the cluster of the cell was restored: %w", err)
	}
	own := quota.CellOf(share, k.Cell)
	switch {
	case err != nil, cell.Status.Aggregator.Epoch == 0, own == nil, own.Aggregation.TermVersion == "":
		return errShareOutdated(share.Name, "its pods have not been counted yet")
	case clusters.ShowsRestore(versions.Seen(cell), now),
		quota.BeganAtOrBefore(&own.Aggregation, versions.Parse(cell.Status.Aggregator.RestoredVersion)):
		return errShareOutdated(share.Name, "its cluster was restored")
	}
	return nil
}

// floorOfShare returns the floor of a share. One that a client made may have none.
func floorOfShare(share *v1alpha1.PodProtector) int {
	if share.Spec.MinAvailable == nil {
		return 0
	}
	return share.Spec.MinAvailable.IntValue()
}

// localOf describes the stored share.
func (k *Keeper) localOf(cell *v1alpha1.PodProtectorCell, stored *v1alpha1.PodProtector) floorshare.Local {
	if stored == nil {
		return floorshare.Local{}
	}
	local := floorshare.Local{Exists: true, Closed: k.isClosed(stored), Floor: floorOfShare(stored)}
	if own := quota.CellOf(stored, k.Cell); own != nil {
		local.Available, local.Reserved = int(own.Aggregation.CountedReplicas), quota.Open(&own.AdmissionHistory)
		local.Unmerged = !quota.AwaitsConfirmation(stored.Spec.ShareOf, &own.Aggregation) && quota.CountMore(&own.AdmissionHistory, &cell.AdmissionHistory) > 0
	}
	return local
}

// isClosed reports whether a share admits nothing: it is closed, or its cluster was restored and it has not been opened since (rule S5).
func (k *Keeper) isClosed(stored *v1alpha1.PodProtector) bool {
	own := quota.CellOf(stored, k.Cell)
	return stored.Spec.ShareOf.Closed || own != nil && quota.AwaitsConfirmation(stored.Spec.ShareOf, &own.Aggregation)
}

// isIncomplete reports whether a share, with the entry own, may lack reservations of removals in flight: it was created in place of a lost one, or its
// counts are void.
func isIncomplete(share *v1alpha1.PodProtector, own *v1alpha1.PodProtectorCell) bool {
	return share.Spec.ShareOf.Recreated || own != nil && own.Aggregation.Void
}

// RecordCompared records that the share of a protector was compared, and needs no further step.
func (k *Keeper) RecordCompared(protector types.NamespacedName) {
	if k != nil {
		k.compared.record(protector)
	}
}

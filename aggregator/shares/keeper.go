package shares

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

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
	// Shares reads and writes the shares in the cell's cluster. Its reads may lag, since every write is a compare-and-swap. live reads where
	// that is not enough.
	Shares client.Client
	Live   client.Reader
	// Core reads live from the core.
	Core client.Reader
	// Version and restored are the versions of the core at the start of the leadership, and of its last restore.
	Version, Restored uint64
	// CoreUID tells the core from other ones; empty if it is unknown.
	CoreUID string
	// Current returns the Cell.
	Current func() *v1alpha1.Cell
	// Draining reports whether the Cell is being deleted.
	Draining func() bool
	// Owns reports whether the leadership has the protectors of a namespace, and queue is that of its protectors.
	Owns  func(namespace string) bool
	Queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	Log   logr.Logger

	// compared are the shares that needed no further step.
	compared comparedShares
	// syncing makes one call of syncCell at a time.
	syncing singleflight.Group
}

// prepare begins the next step for a protector that was just aggregated, in p, which the caller writes, from before. It writes the share first if the
// step begins with that, or returns the write of the share that must follow. An error is that of the cell's API server.
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
	if step.Kind == floorshare.Create || step.Kind == floorshare.Enter {
		if err := k.syncCell(ctx); errors.Is(err, errOtherPods) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
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
// not marked it as void (rule S5). Others may rely on pods of the cell that such a share does not keep.
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

// record updates what the protector records of the share. An open share has all reservations that the protector had for the cell, and so
// they are dropped in the write that records how many there are.
func (k *Keeper) record(cell *v1alpha1.PodProtectorCell, stored *v1alpha1.PodProtector) {
	if cell.Share == nil || stored == nil {
		return
	}
	cell.Share.Wanted = stored.Status.Wanted
	own := quota.CellOf(stored, k.Cell)
	if own == nil {
		return
	}
	reserved := cell.Share.Reserved
	if k.isClosed(stored) {
		cell.Share.Reserved = quota.Saturate(quota.CountMore(&own.AdmissionHistory, &cell.AdmissionHistory))
	} else {
		cell.Share.Reserved, cell.AdmissionHistory = quota.Saturate(quota.Open(&own.AdmissionHistory)), v1alpha1.AdmissionHistory{}
	}
	if isIncomplete(stored, own) {
		cell.Share.Reserved = max(cell.Share.Reserved, reserved)
	}
	if own.Aggregation.CountedSpec == cell.Aggregation.CountedSpec { // the two are counted by different streams
		cell.Aggregation.CountedReplicas = min(cell.Aggregation.CountedReplicas, own.Aggregation.CountedReplicas)
	}
}

// presumeReserved records as reserved what a share may have admitted before it was lost, or before its cluster was restored: all but the pods that the
// protector records as its floor (rules S1 and S2). Otherwise, once that record rises, the other cells rely on pods that are being removed (rule S4).
// record keeps these until the counts of the share are valid again. before is the entry that the write replaces, whose pods may have died since.
func (k *Keeper) presumeReserved(before, cell *v1alpha1.PodProtectorCell, stored *v1alpha1.PodProtector) {
	if cell.Share == nil {
		return
	}
	if stored != nil && !isIncomplete(stored, quota.CellOf(stored, k.Cell)) {
		return
	}
	wasCounted := before != nil && !before.Aggregation.Void
	if wasCounted && stored != nil && !k.isClosed(stored) { // recorded before it was opened
		return
	}
	available := cell.Aggregation.CountedReplicas
	if wasCounted {
		available = max(available, before.Aggregation.CountedReplicas)
	}
	cell.Share.Reserved = max(cell.Share.Reserved, available-cell.Share.Floor)
}

// isIncomplete reports whether a share, with the entry own, may lack reservations of removals in flight: it was created in place of a lost one, or its
// counts are void.
func isIncomplete(share *v1alpha1.PodProtector, own *v1alpha1.PodProtectorCell) bool {
	return share.Spec.ShareOf.Recreated || own != nil && own.Aggregation.Void
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

// create creates the share, closed. The cell has none while its namespace does not exist or is being deleted, which a dry run tells at no cost for the
// core. A late read of the protector could hide that it records a share, which was lost then (rule S4).
func (k *Keeper) create(ctx context.Context, p *v1alpha1.PodProtector) error {
	hash := sha256.Sum256([]byte(string(p.UID) + "/" + k.Cell))
	share := &v1alpha1.PodProtector{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: shareName(p.Name, hex.EncodeToString(hash[:4]))},
		Spec:       *k.shareSpec(p),
	}
	share.Spec.ShareOf.Closed = true
	err := k.Shares.Create(ctx, share.DeepCopy(), client.DryRunAll)
	if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	} else if err != nil {
		return err
	}
	live := &v1alpha1.PodProtector{}
	if err := k.Core.Get(ctx, client.ObjectKeyFromObject(p), live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the protector from the core: %w", err)
	}
	share.Spec.ShareOf.Recreated = quota.HasShare(p, k.Cell) || quota.HasShare(live, k.Cell)
	return k.Shares.Create(ctx, share)
}

// shareName returns the name of a share. The hash of the protector's UID and of the cell tells the shares of several cores, and of several
// cells in one cluster, from each other.
func shareName(protector, hash string) string {
	const maxLength = 200
	return strings.TrimRight(protector[:min(len(protector), maxLength)], ".-") + ".share-" + hash
}

// shareSpec returns the spec of a protector's share, without its floor.
func (k *Keeper) shareSpec(p *v1alpha1.PodProtector) *v1alpha1.PodProtectorSpec {
	spec := p.Spec.DeepCopy()
	spec.MinAvailable, spec.MaxUnavailable, spec.ExpectedReplicas, spec.CoreOutage = v1alpha1.Pods(0), nil, nil, v1alpha1.CoreOutageDeny
	spec.ShareOf = &v1alpha1.ShareOf{
		Name: p.Name, UID: string(p.UID), FormerUID: p.Annotations[v1alpha1.AnnotationRestored], Core: k.CoreUID, Cell: k.Cell, Held: clusters.IsHeld(p),
	}
	return spec
}

// followSpec copies a changed spec of the protector to the share. That comes before all steps: the other cells rely on the share for the pods that
// the new spec selects.
func (k *Keeper) followSpec(ctx context.Context, p, stored *v1alpha1.PodProtector) error {
	if stored == nil {
		return nil
	}
	spec, now := k.shareSpec(p), &stored.Spec
	spec.MinAvailable = now.MinAvailable
	of := spec.ShareOf
	of.Closed, of.Recreated, of.Revision, of.ConfirmedTerm = now.ShareOf.Closed, now.ShareOf.Recreated, now.ShareOf.Revision, now.ShareOf.ConfirmedTerm
	shares := quota.SharesOf(p, k.Restored)
	of.FloorUnknown = shares.FloorUnknown || now.ShareOf.FloorUnknown && !shares.KeepsFloor()
	if equality.Semantic.DeepEqual(spec, now) {
		return nil
	}
	stored.Spec = *spec
	return k.Shares.Update(ctx, stored)
}

func (k *Keeper) delete(ctx context.Context, stored *v1alpha1.PodProtector) error {
	return client.IgnoreNotFound(k.Shares.Delete(ctx, stored, client.Preconditions{UID: &stored.UID, ResourceVersion: &stored.ResourceVersion}))
}

// raise raises or confirms the share before the caller records it.
func (k *Keeper) raise(ctx context.Context, cell *v1alpha1.PodProtectorCell, stored *v1alpha1.PodProtector, floor int) error {
	if err := k.setFloor(ctx, stored, max(floor, floorOfShare(stored))); err != nil {
		return err
	}
	k.recordShare(cell, floor)
	k.record(cell, stored)
	return nil
}

// lower lowers the share after the caller has recorded that. If it has budget now, it forgets the removals that it denied: otherwise it would want
// budget again as soon as it gives that away, although no client asks any more.
func (k *Keeper) lower(ctx context.Context, stored *v1alpha1.PodProtector, floor int) error {
	if err := k.setFloor(ctx, stored, floor); err != nil {
		return err
	}
	if stored.Status.Wanted == 0 || quota.BudgetOf(stored).Left() <= 0 {
		return nil
	}
	stored.Status.Wanted = 0
	err := k.Shares.Status().Update(ctx, stored)
	if apierrors.IsConflict(err) { // a removal was denied or admitted meanwhile
		return nil
	}
	return client.IgnoreNotFound(err)
}

// setFloor writes the floor of a share. It changes the share in any case.
func (k *Keeper) setFloor(ctx context.Context, stored *v1alpha1.PodProtector, floor int) error {
	stored.Spec.MinAvailable = v1alpha1.Pods(quota.Saturate(floor))
	stored.Spec.ShareOf.Revision++
	return k.Shares.Update(ctx, stored)
}

// recordShare records the share of the cell. It changes the protector in any case.
func (k *Keeper) recordShare(cell *v1alpha1.PodProtectorCell, floor int) {
	if cell.Share == nil {
		cell.Share = &v1alpha1.CellShare{}
	}
	cell.Share.Floor = quota.Saturate(floor)
	cell.Share.Revision++
	cell.Share.TermVersion = versions.Format(k.Version)
}

// open opens a share with all reservations that the protector has for the cell. The counts of the share begin at the version of those of
// the protector, so that no older count is paired with these reservations.
func (k *Keeper) open(ctx context.Context, p, stored *v1alpha1.PodProtector, floor int) error {
	from := quota.CellOf(p, k.Cell)
	own := quota.CellOf(stored, k.Cell)
	if own == nil {
		stored.Status.Cells = append(stored.Status.Cells, v1alpha1.PodProtectorCell{CellID: k.Cell})
		own = quota.CellOf(stored, k.Cell)
	}
	quota.MergeReservations(&own.AdmissionHistory, &from.AdmissionHistory)
	StartCountsAfter(&own.Aggregation, &from.Aggregation)
	if stored.Spec.ShareOf.Recreated {
		quota.VoidCounts(&own.Aggregation) // rules 10 and 11: removals that the lost share admitted may still be in flight
	}
	if err := k.Shares.Status().Update(ctx, stored); err != nil {
		return err
	}
	stored.Spec.ShareOf.Closed, stored.Spec.ShareOf.Recreated, stored.Spec.ShareOf.ConfirmedTerm = false, false, own.Aggregation.TermVersion
	return k.setFloor(ctx, stored, floor)
}

// leave closes the share, and gives its reservations back to the protector. The reservations of a share that was lost are unknown.
func (k *Keeper) leave(ctx context.Context, cell *v1alpha1.PodProtectorCell, stored *v1alpha1.PodProtector) error {
	cell.Share = nil
	if stored == nil {
		quota.VoidCounts(&cell.Aggregation)
		return nil
	}
	stored.Spec.ShareOf.Closed = true
	if err := k.setFloor(ctx, stored, floorOfShare(stored)); err != nil {
		return err
	}
	own := quota.CellOf(stored, k.Cell) // as it was at the write
	if own != nil {
		quota.MergeReservations(&cell.AdmissionHistory, &own.AdmissionHistory)
		StartCountsAfter(&cell.Aggregation, &own.Aggregation)
	}
	if isIncomplete(stored, own) {
		quota.VoidCounts(&cell.Aggregation) // rule 11
	}
	return nil
}

// StartCountsAfter invalidates counts until an aggregator counts again, from a snapshot that is not older than other counts of the cell.
func StartCountsAfter(counts, other *v1alpha1.Aggregation) {
	version := max(
		versions.Parse(counts.SnapshotVersion), versions.Parse(counts.SettledVersion), versions.Parse(other.SnapshotVersion), versions.Parse(other.SettledVersion))
	counts.CountedSpec, counts.Holder, counts.SettledVersion = "", "", versions.Format(version)
}

// IsOutdated reports whether an error means that the share was changed or deleted since it was read.
func IsOutdated(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}

// enqueueShares enqueues the protectors of all shares, since a protector may have been released while no leadership watched.
func (k *Keeper) enqueueShares(ctx context.Context) {
	all := &v1alpha1.PodProtectorList{}
	if err := k.Shares.List(ctx, all); err != nil {
		k.Log.Error(err, "Failed to list the shares of the cell")
		return
	}
	for i := range all.Items {
		if of := all.Items[i].Spec.ShareOf; of != nil && of.Cell == k.Cell {
			k.Queue.Add(types.NamespacedName{Namespace: all.Items[i].Namespace, Name: of.Name})
		}
	}
}

// errOtherPods is the error of a Cell that differs from that of another core.
var errOtherPods = errors.New("the Cell of that name in the cluster of the cell has other namespaces or another podSelector, so the cell gets no shares: " +
	"rename one of the Cells, or delete that in the cluster of the cell if no core has such a Cell any more")

// copiedCell reads the copy of the Cell in the cluster of the cell, by which the aggregator counts for shares. errOtherPods is returned if it has other
// pods than the Cell, because several cores have a Cell of that name.
func (k *Keeper) copiedCell(ctx context.Context) (*v1alpha1.Cell, error) {
	copied, cell := &v1alpha1.Cell{}, k.Current()
	if err := k.Shares.Get(ctx, client.ObjectKey{Name: k.Cell}, copied); err != nil {
		return nil, err
	}
	if !equality.Semantic.DeepEqual(cell.Spec.Namespaces, copied.Spec.Namespaces) || !equality.Semantic.DeepEqual(cell.Spec.PodSelector, copied.Spec.PodSelector) {
		return nil, fmt.Errorf("compare Cell %s: %w", k.Cell, errOtherPods)
	}
	return copied, nil
}

// syncCell copies the settings of the Cell. The copy settles exactly, and has the longest deadline of the Cells of all cores, which is safe for all.
// Concurrent calls share one: workers that create the copy at once would meet each other's.
func (k *Keeper) syncCell(ctx context.Context) error {
	_, err, _ := k.syncing.Do("", func() (any, error) { return nil, k.syncCellOnce(ctx) })
	return err
}

func (k *Keeper) syncCellOnce(ctx context.Context) error {
	cell := k.Current()
	deadline := cell.Spec.AdmissionDeadlineOrDefault()
	copied, err := k.copiedCell(ctx)
	switch {
	case apierrors.IsNotFound(err):
		err := k.Shares.Create(ctx, &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: k.Cell}, Spec: v1alpha1.CellSpec{
			Namespaces: cell.Spec.Namespaces, PodSelector: cell.Spec.PodSelector, Settlement: v1alpha1.SettlementExact,
			AdmissionDeadline: &metav1.Duration{Duration: deadline},
		}})
		return client.IgnoreAlreadyExists(err) // the cache does not show it yet
	case err != nil:
		return err
	case deadline <= copied.Spec.AdmissionDeadlineOrDefault() && copied.Spec.Settlement == v1alpha1.SettlementExact:
		return nil
	}
	copied.Spec.Settlement = v1alpha1.SettlementExact
	copied.Spec.AdmissionDeadline = &metav1.Duration{Duration: max(deadline, copied.Spec.AdmissionDeadlineOrDefault())}
	return k.Shares.Update(ctx, copied)
}

// syncCellInterval is how often the settings of the Cell are compared with those in the cluster of the cell.
const syncCellInterval = 10 * time.Second

// Run keeps the settings of the Cell up to date in the cluster of the cell, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	if k == nil {
		return
	}
	k.enqueueShares(ctx)
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := k.syncCell(ctx); err != nil && ctx.Err() == nil {
			k.Log.Error(err, "Failed to copy the settings of the Cell to its cluster, for shares")
		}
	}, syncCellInterval)
}

// Watch enqueues the protector of each share of a cell that changes, with the current keeper; nil while another process leads.
func Watch(ctx context.Context, workers cluster.Cluster, cell string, current func() *Keeper) error {
	err := workers.GetFieldIndexer().IndexField(ctx, &v1alpha1.PodProtector{}, shareOfName, func(o client.Object) []string {
		if p, ok := o.(*v1alpha1.PodProtector); ok && p.Spec.ShareOf != nil {
			return []string{p.Spec.ShareOf.Name}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index shares: %w", err)
	}
	informer, err := workers.GetCache().GetInformer(ctx, &v1alpha1.PodProtector{})
	if err != nil {
		return fmt.Errorf("watch shares: %w", err)
	}
	changed := func(old, obj any) {
		if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		share, ok := obj.(*v1alpha1.PodProtector)
		if k := current(); ok && k != nil && share.Spec.ShareOf != nil && share.Spec.ShareOf.Cell == cell && k.Owns(share.Namespace) {
			k.shareChanged(old, share)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { changed(nil, obj) }, UpdateFunc: changed, DeleteFunc: func(obj any) { changed(nil, obj) },
	})
	return err
}

// shareChanged enqueues the protector of a share: at once if the share wants budget, otherwise after the aggregation rate.
func (k *Keeper) shareChanged(old any, share *v1alpha1.PodProtector) {
	key := types.NamespacedName{Namespace: share.Namespace, Name: share.Spec.ShareOf.Name}
	before, ok := old.(*v1alpha1.PodProtector)
	if !ok || before.Status.Wanted != share.Status.Wanted || before.Generation != share.Generation {
		k.Queue.Add(key)
		return
	}
	k.Queue.AddAfter(key, share.Spec.AdmissionHistory.AggregationRateOrDefault())
}

// Step is prepare for a caller that writes p whatever the error is: then it has no more of the counts than that pods have died.
func (k *Keeper) Step(ctx context.Context, before, p *v1alpha1.PodProtector) (finish func(context.Context) error, err error) {
	finish, err = k.prepare(ctx, before, p)
	if err != nil && !IsOutdated(err) {
		lowerCounts(before, p, k.Cell)
	}
	return finish, err
}

// lowerCounts replaces the entry of a cell whose share could not be read or written by the one before, with fewer pods if some have died, and with the
// removals that a lost share may have admitted: the other cells must not rely on those pods, whatever the share has (rule S4).
func lowerCounts(before, p *v1alpha1.PodProtector, cellID string) {
	cell, stored := quota.CellOf(p, cellID), quota.CellOf(before, cellID)
	if stored == nil {
		quota.DropCell(p, cellID)
		return
	}
	counted, share := cell.Aggregation, cell.Share
	stored.DeepCopyInto(cell)
	if cell.Share != nil && share != nil {
		cell.Share.Reserved = max(cell.Share.Reserved, share.Reserved)
	}
	if cell.Aggregation.CountedSpec == counted.CountedSpec {
		cell.Aggregation.CountedReplicas = min(cell.Aggregation.CountedReplicas, counted.CountedReplicas)
	}
}

// RecordCompared records that the share of a protector was compared, and needs no further step.
func (k *Keeper) RecordCompared(protector types.NamespacedName) {
	if k != nil {
		k.compared.record(protector)
	}
}

// Drain removes the entry of a cell from a protector, or marks it as draining while it has reservations or the shares of other cells do not keep the
// floor yet. A cell that is drained gives its share back first. restored is the version of the core's last restore.
func Drain(p *v1alpha1.PodProtector, cellID string, restored uint64) {
	cell := quota.CellOf(p, cellID)
	if cell == nil || cell.Share != nil {
		return
	}
	if len(cell.AdmissionHistory.Buckets) > 0 || !quota.MayDropCell(p, cellID, restored) {
		cell.Discount = v1alpha1.DiscountDraining
		return
	}
	quota.DropCell(p, cellID)
}

// ShareRetryInterval is the time after which a step of a share that met another write is tried again.
const ShareRetryInterval = 100 * time.Millisecond

package shares

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/versions"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// create creates the share, closed. The cell has none while its namespace does not exist or is being deleted, which a dry run detects without a request to
// the core. A late read of the protector could hide that it records a share, which was lost then (rule S4).
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

// open opens a share with all reservations that the protector has for the cell. The counts of the share begin at the version of those of
// the protector, so that no older count is paired with these reservations.
func (k *Keeper) open(ctx context.Context, p, stored *v1alpha1.PodProtector, floor int) error {
	from := quota.CellOf(p, k.Cell)
	own := quota.CellOf(stored, k.Cell)
	if own == nil {
		stored.Status.Cells = append(stored.Status.Cells, v1alpha1.PodProtectorCell{CellID: k.Cell})
		own = quota.CellOf(stored, k.Cell)
		own.Aggregation.LastEventTime = from.Aggregation.LastEventTime // the API server requires one
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

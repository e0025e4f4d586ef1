package shares

import (
	"github.com/breakwater-k8s/breakwater/aggregator/versions"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// record updates what the protector records of the share. An open share has all reservations that the protector had for the cell, and so
// they are dropped in the write that records how many there are. After a restore of the core, that includes escrows: the count that this write makes
// valid is later than everything that their holders admitted (rule 11).
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
		cell.Share.Reserved = quota.Saturate(quota.Open(&own.AdmissionHistory))
		quota.DropReservations(&cell.AdmissionHistory)
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

// recordShare records the share of the cell. It changes the protector in any case.
func (k *Keeper) recordShare(cell *v1alpha1.PodProtectorCell, floor int) {
	if cell.Share == nil {
		cell.Share = &v1alpha1.CellShare{}
	}
	cell.Share.Floor = quota.Saturate(floor)
	cell.Share.Revision++
	cell.Share.TermVersion = versions.Format(k.Version)
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

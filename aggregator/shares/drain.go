package shares

import (
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Drain removes the entry of a cell from a protector, or marks it as draining while it has reservations or the shares of other cells do not keep the
// floor yet. A cell that is drained gives its share back first. restored is the version of the core's last restore.
func Drain(p *v1alpha1.PodProtector, cellID string, restored uint64) {
	cell := quota.CellOf(p, cellID)
	if cell == nil || cell.Share != nil {
		return
	}
	if !quota.IsEmpty(&cell.AdmissionHistory) || !quota.MayDropCell(p, cellID, restored) {
		cell.Discount = v1alpha1.DiscountDraining
		return
	}
	quota.DropCell(p, cellID)
}

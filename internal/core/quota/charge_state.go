package quota

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// chargeState is what was charged before for the pod of a removal (rule 2):
//
//	state            meaning                                                       an admission is
//	chargeUncounted  the cell was never counted, or was cleared: no history        Waived, not charged
//	chargeNone       the history of the cell has no reservation of the pod         Reserved, charged
//	chargeOpen       a reservation of the pod reduces the budget                   Renewed, not charged again
//	chargeAccounted  the counts account for the reservation, so that it does not   Renewed, charged again
//	                 reduce the budget: the pod was unavailable in them
type chargeState int

const (
	chargeUncounted chargeState = iota
	chargeNone
	chargeOpen
	chargeAccounted
)

// chargeStateOf returns what was charged before for a pod, and the position of its reservation. cell is nil if it was never counted.
func chargeStateOf(cell *v1alpha1.PodProtectorCell, uid types.UID) (position, chargeState) {
	if cell == nil || cell.Discount == v1alpha1.DiscountCleared {
		return position{}, chargeUncounted
	}
	at, ok := findReservation(&cell.AdmissionHistory, uid)
	switch {
	case !ok:
		return at, chargeNone
	case cell.AdmissionHistory.Buckets[at.bucket].Accounted:
		return at, chargeAccounted
	default:
		return at, chargeOpen
	}
}

package quota

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// EscrowLifetime is how long a replica may admit removals by an escrow, from the beginning of the last write that stored the escrow. An aggregator that
// sees a stamp knows that its holder uses it no longer than that.
const EscrowLifetime = time.Second

// maxEscrows is the number of escrows of a cell that the API server accepts. More exist only if as many replicas crash and no aggregator ends theirs.
const maxEscrows = 64

// Escrowed returns the number of reservations in the escrows of a history.
func Escrowed(h *v1alpha1.AdmissionHistory) (n int) {
	for i := range h.Escrows {
		n += max(int(h.Escrows[i].Count), 0)
	}
	return n
}

// IsEmpty reports whether a history has no reservation, with or without a pod.
func IsEmpty(h *v1alpha1.AdmissionHistory) bool { return len(h.Buckets) == 0 && len(h.Escrows) == 0 }

// EscrowOf returns the escrow of a holder; a zero Escrow if it has none.
func EscrowOf(h *v1alpha1.AdmissionHistory, holder string) v1alpha1.Escrow {
	for i := range h.Escrows {
		if h.Escrows[i].Holder == holder {
			return h.Escrows[i]
		}
	}
	return v1alpha1.Escrow{}
}

// SetEscrow sets the number of reservations in the escrow of a holder; 0 ends it. The holder must not use a stamp twice.
func SetEscrow(h *v1alpha1.AdmissionHistory, holder string, count int, stamp int64) {
	before := h.Escrows
	h.Escrows = slices.DeleteFunc(slices.Clone(before), func(e v1alpha1.Escrow) bool { return e.Holder == holder })
	if count > 0 {
		h.Escrows = append(h.Escrows, v1alpha1.Escrow{Holder: holder, Count: Saturate(count), Stamp: stamp})
	}
	keepEmptyList(h, before)
}

// EndEscrows ends the escrows for which expired is true. It must be part of the write that sets counts that account for every removal that the holders
// may have admitted (rule E4). It reports whether there were any.
func EndEscrows(h *v1alpha1.AdmissionHistory, expired func(v1alpha1.Escrow) bool) (ended bool) {
	before := h.Escrows
	h.Escrows = slices.DeleteFunc(slices.Clone(before), expired)
	keepEmptyList(h, before)
	return len(h.Escrows) < len(before)
}

// DropReservations drops all reservations of a history, with and without pods.
func DropReservations(h *v1alpha1.AdmissionHistory) {
	h.Buckets = nil
	if len(h.Escrows) > 0 { // otherwise the empty list of a write that has ended them stays
		EndEscrows(h, func(v1alpha1.Escrow) bool { return true })
	}
}

// keepEmptyList leaves an empty list in the write that ends the last escrow, and none in later ones: the API server does not let a component drop escrows
// that does not know them (rule E5).
func keepEmptyList(h *v1alpha1.AdmissionHistory, before []v1alpha1.Escrow) {
	switch {
	case len(h.Escrows) > 0:
	case len(before) > 0:
		h.Escrows = []v1alpha1.Escrow{}
	default:
		h.Escrows = nil
	}
}

// MayEscrow reports whether a replica may make reservations of a cell in advance. It may not where the pod of a reservation matters for the decision, or
// its number, or where another object may decide on the next removal.
func MayEscrow(p *v1alpha1.PodProtector, cellID string) bool {
	cell := CellOf(p, cellID)
	_, isFloorKnown := Floor(p)
	return cell != nil && cell.Aggregation.KnowsEscrows && cell.Discount == "" && isFloorKnown && !needsRecount(p) &&
		p.Spec.ShareOf == nil && !WantsShares(p) && !slices.ContainsFunc(p.Status.Cells, func(c v1alpha1.PodProtectorCell) bool { return c.Share != nil }) &&
		p.Spec.AdmissionHistory.MaxConcurrentLag == 0 && !toleratesDomainLoss(&p.Spec)
}

// MayUseEscrow reports whether an escrow that is part of this state may still admit a removal (rule E2): everything that is reserved, the escrow included,
// still leaves the floor.
func MayUseEscrow(p *v1alpha1.PodProtector, cellID string) bool {
	return MayEscrow(p, cellID) && BudgetOf(p).Left() >= 0
}

// GrantEscrow returns how many of the wanted reservations a replica may add to its escrow: at most half of what is left, so that other replicas find
// budget, and of that only what the escrows do not have already (rule E3).
func GrantEscrow(p *v1alpha1.PodProtector, cellID string, wanted int) int {
	if !MayEscrow(p, cellID) || len(CellOf(p, cellID).AdmissionHistory.Escrows) >= maxEscrows {
		return 0
	}
	left := BudgetOf(p).Left()
	for i := range p.Status.Cells {
		left -= Escrowed(&p.Status.Cells[i].AdmissionHistory)
	}
	return max(min(wanted, left/2), 0)
}

// NameEscrowed replaces reservations of a holder's escrow by those of the pods whose removals it has admitted, and keeps the rest (rule E1). They are
// charged even if the budget does not allow it any more, or the escrow has ended meanwhile: the removals were admitted.
func NameEscrowed(p *v1alpha1.PodProtector, cellID, holder string, admitted []Removal, rest int, stamp int64) {
	forced := slices.Clone(admitted)
	for i := range forced {
		forced[i].Force = true
	}
	Decide(p, forced)
	if cell := CellOf(p, cellID); cell != nil {
		SetEscrow(&cell.AdmissionHistory, holder, rest, stamp)
	}
}

// HasReservation reports whether a pod has a reservation. Those of escrows have no pods.
func HasReservation(h *v1alpha1.AdmissionHistory, uid types.UID) bool {
	_, has := findReservation(h, uid)
	return has
}

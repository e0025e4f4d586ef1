package quota

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Removal is one attempt to make one available pod unavailable.
type Removal struct {
	Cell      string
	PodUID    types.UID
	PodName   string
	Operation v1alpha1.Operation
	// At is the time of the attempt.
	At time.Time
	// Token distinguishes the reservation of this attempt from all others of the pod. No other attempt has it. A removal without a
	// token cannot give back its reservation.
	Token string
	// Generation is the generation of the pod after an update. Containers has, for each container that the update restarts, the restart
	// count that it will have then. They are 0 and nil for a removal of the pod.
	Generation int64
	Containers []v1alpha1.ContainerRestarts
	// PodVersion is the pod's resourceVersion in the review of a relabel; 0 for all other operations.
	PodVersion int64
	// Domain is the domain of the pod's node, for a protector whose topologyKey is a node label.
	Domain Domain
	// Force admits the removal regardless of the budget. It is charged all the same.
	Force bool
	// RevocableUntil is the time until which the reservation may be given back. It is zero if the caller will not give it back.
	RevocableUntil time.Time
}

// Outcome is the decision on a removal.
type Outcome string

const (
	// Reserved admits: the removal was charged and is now recorded in the history.
	Reserved Outcome = "Reserved"
	// Renewed admits: a removal of the pod was in the history already, so that this one was charged only if its reservation no longer
	// reduced the budget.
	Renewed Outcome = "Renewed"
	// Waived admits without a reservation: there is no history to write to, and the floor is zero or the removal is a break-glass
	// removal. The caller must charge the latter when the cell has a history.
	Waived Outcome = "Waived"
	// DeniedNoBudget denies: one available pod less would violate the floor.
	DeniedNoBudget Outcome = "NoBudget"
	// DeniedDomainLoss denies: after the removal, the loss of a domain other than the pod's own would leave fewer pods than the floor.
	DeniedDomainLoss Outcome = "DomainLoss"
	// DeniedFull denies: as many reservations are open as maxConcurrentLag allows.
	DeniedFull Outcome = "Full"
	// DeniedUpdates denies: as many pods of the cell are under update as the status can record.
	DeniedUpdates Outcome = "TooManyUpdates"
	// DeniedNeverAggregated denies: no aggregator has counted the protector's pods in this cell yet.
	DeniedNeverAggregated Outcome = "NeverAggregated"
	// DeniedDraining denies: the cell is being removed, and waits for the end of removals that were admitted before.
	DeniedDraining Outcome = "Draining"
	// DeniedFloorUnknown denies: the expected number of pods, from which the floor is computed, is unknown.
	DeniedFloorUnknown Outcome = "FloorUnknown"
	// DeniedShared denies: the cell decides on its share, or no longer does. The caller must decide again on the object that applies, also
	// a forced removal.
	DeniedShared Outcome = "Shared"
	// DeniedVanished denies: the protector no longer exists, although it was not released. Decide does not return it. A caller that
	// detects this does.
	DeniedVanished Outcome = "Vanished"
	// DeniedRestored denies: the protector or its core was restored, and not all of its cells have been counted again.
	DeniedRestored Outcome = "Restored"
	// DeniedNameless denies: without a pod UID, a removal cannot be distinguished from its repetition.
	DeniedNameless Outcome = "Nameless"
)

// Admitted reports whether the removal is allowed.
func (o Outcome) Admitted() bool { return o == Reserved || o == Renewed || o == Waived }

// Written reports whether the outcome changed the history, so that it holds only once the status is written.
func (o Outcome) Written() bool { return o == Reserved || o == Renewed }

// Verdict is the answer to one removal.
type Verdict struct {
	Outcome Outcome
	// Budget is the budget before the removal was charged.
	Budget Budget
	// Loss describes the domain loss behind DeniedDomainLoss. It is nil unless that is the outcome, or would be without Force.
	Loss *DomainLoss
	// Forced is the outcome that the removal would have had without Force. It is empty if Force made no difference.
	Forced Outcome
	// Claim is the claim that a Reserved or Renewed removal may give back.
	Claim Claim
}

// Decide answers removals in their order and records their reservations in p.Status, which must be the caller's own copy. Admissions
// hold only after the caller has written that status by compare-and-swap. A share that denies removals records in p.Status.Wanted
// that it wants budget; p should be written then, too, although the denials hold in any case.
func Decide(p *v1alpha1.PodProtector, removals []Removal) []Verdict {
	budget := BudgetOf(p)
	losses := domainLossesOf(p, budget)
	verdicts := make([]Verdict, len(removals))
	at := latestAttempt(removals)
	for i, removal := range removals {
		removal.At = at
		own := ownDiscount(p, removal.Cell)
		cellBudget := budget
		cellBudget.Available += own
		var charged int
		if verdicts[i], charged = decide(p, cellBudget, losses, removal); charged > 0 {
			budget.Reserved += charged
			losses.charge(removal.Cell)
			budget.Available += own - ownDiscount(p, removal.Cell)
		}
	}
	countWanted(p, verdicts)
	return verdicts
}

// latestAttempt returns the time that all removals of one write get, because a merged bucket stores equal times in less space. A time
// later than that of the attempt is stricter.
func latestAttempt(removals []Removal) time.Time {
	latest := time.Time{}
	for i := range removals {
		if at := removals[i].At; at.After(latest) {
			latest = at
		}
	}
	return latest
}

// decide returns the verdict on one removal, and the amount by which it reduces the budget.
func decide(p *v1alpha1.PodProtector, budget Budget, losses *domainLosses, r Removal) (verdict Verdict, charged int) {
	verdict = Verdict{Budget: budget}
	if r.PodUID == "" {
		verdict.Outcome = DeniedNameless
		return verdict, 0
	}
	cell := CellOf(p, r.Cell)
	if HasShare(p, r.Cell) || p.Spec.ShareOf != nil && p.Spec.ShareOf.Closed { // rule S6
		verdict.Outcome = DeniedShared
		return verdict, 0
	}
	at, state := chargeStateOf(cell, r.PodUID)
	reason := denialReason(p, budget, state)
	switch {
	case reason != "" || state == chargeUncounted:
	case cell.Discount == v1alpha1.DiscountDraining:
		// Also deny a removal that has a reservation: a client that repeats one forever would block the removal of the Cell.
		reason = DeniedDraining
	case state == chargeNone && r.Generation > 0 && openUpdates(&cell.AdmissionHistory) >= maxUpdates:
		reason = DeniedUpdates
	case state != chargeOpen:
		reason, verdict.Loss = losses.denialReason(r)
	}
	if reason != "" {
		if !r.Force {
			verdict.Outcome = reason
			return verdict, 0
		}
		verdict.Forced = reason
	}
	switch state {
	case chargeUncounted:
		verdict.Outcome = Waived
	case chargeNone:
		charged = 1
		reserve(&cell.AdmissionHistory, r, r.At).Token = r.Token
		verdict.Outcome, verdict.Claim = Reserved, Claim{Token: r.Token}
	case chargeOpen: // rule 2
		verdict.Outcome, verdict.Claim = Renewed, renew(&cell.AdmissionHistory, at, r)
	case chargeAccounted:
		charged = 1
		verdict.Outcome, verdict.Claim = Renewed, renew(&cell.AdmissionHistory, at, r)
	}
	return verdict, charged
}

// denialReason returns the reason to deny a removal, or "" if there is none.
func denialReason(p *v1alpha1.PodProtector, budget Budget, state chargeState) Outcome {
	limit := int(p.Spec.AdmissionHistory.MaxConcurrentLag)
	switch {
	case deniesUntilRecount(p, budget):
		return DeniedRestored
	case budget.FloorUnknown:
		return DeniedFloorUnknown
	case state == chargeUncounted && (budget.Floor > 0 || p.Spec.ShareOf != nil): // a share of 0 can rise, and other cells rely on its pods then
		return DeniedNeverAggregated
	case state == chargeUncounted:
		return ""
	case state == chargeOpen && budget.Floor > 0 && budget.Left() < 0:
		// Since that reservation was made, pods died by themselves or the floor was raised. Whatever happens to the earlier attempt, this
		// one would violate the floor.
		return DeniedNoBudget
	case state == chargeOpen:
		return ""
	case limit > 0 && budget.Reserved >= limit:
		return DeniedFull
	case budget.Floor > 0 && budget.Left() <= 0:
		return DeniedNoBudget
	default:
		return ""
	}
}

// reserve adds a single reservation.
func reserve(h *v1alpha1.AdmissionHistory, r Removal, stamp time.Time) *v1alpha1.Bucket {
	bucket := v1alpha1.Bucket{
		// The stored time has microsecond resolution.
		StartTime:  metav1.NewMicroTime(stamp.Truncate(time.Microsecond)),
		Counter:    1,
		PodUID:     r.PodUID,
		PodName:    r.PodName,
		Operation:  r.Operation,
		Generation: r.Generation,
		Containers: r.Containers,
		PodVersion: r.PodVersion,
	}
	if !r.RevocableUntil.IsZero() {
		until := metav1.NewMicroTime(r.RevocableUntil)
		bucket.RevocableUntil = &until
	}
	h.Buckets = append(h.Buckets, bucket)
	return &h.Buckets[len(h.Buckets)-1]
}

// renew moves a reservation to the end, as a single one with a new stamp. The stamp always increases, even if the clock of the
// removal is behind. Two attempts with one stamp would share one timer, and the later of them could be mistaken for expired.
func renew(h *v1alpha1.AdmissionHistory, at position, r Removal) Claim {
	old := h.Buckets[at.bucket]
	stamp := r.At
	if after := latestTime(&old).Add(time.Microsecond); stamp.Before(after) {
		stamp = after
	}
	removeReservation(h, at)
	renewed := reserve(h, r, stamp)
	carryOver(renewed, &old)
	return addClaim(renewed, &old)
}

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
	// Token tells the reservation that the attempt makes from all others of the pod: no other attempt has it. Without
	// one it cannot give back.
	Token string
	// Generation is that of the pod with an update, and Containers how often those that the update restarts will have been
	// restarted by then. 0 and nil when the pod is removed.
	Generation int64
	Containers []v1alpha1.ContainerRestarts
	// PodVersion is the resourceVersion of the pod that a relabel was reviewed for; 0 for all else.
	PodVersion int64
	// Domain is that of the pod's node, for a protector that goes by nodes.
	Domain Domain
	// Force makes it admitted whatever the budget. It is charged all the same.
	Force bool
	// RevocableUntil is how long the reservation may be given back; zero when nothing will ask for that.
	RevocableUntil time.Time
}

// Outcome is what became of a removal.
type Outcome string

const (
	// Reserved admits: the removal was charged and stands in the history now.
	Reserved Outcome = "Reserved"
	// Renewed admits: the pod's removal stood in the history already and nothing was charged.
	Renewed Outcome = "Renewed"
	// Waived admits without a reservation: there is no history to write to, and the floor is zero or the glass broken.
	Waived Outcome = "Waived"
	// RefusedNoBudget refuses: one available pod less would break the floor.
	RefusedNoBudget Outcome = "NoBudget"
	// RefusedDomainLoss refuses: the floor would not outlive the loss of some other domain than that of the pod.
	RefusedDomainLoss Outcome = "DomainLoss"
	// RefusedFull refuses: as many reservations are open as maxConcurrentLag allows.
	RefusedFull Outcome = "Full"
	// RefusedUpdates refuses: as many pods of the cell are under update as can be kept.
	RefusedUpdates Outcome = "TooManyUpdates"
	// RefusedNeverAggregated refuses: nobody has counted the protector's pods in this cell yet.
	RefusedNeverAggregated Outcome = "NeverAggregated"
	// RefusedDraining refuses: the cell is being removed, and waits for what was admitted before.
	RefusedDraining Outcome = "Draining"
	// RefusedFloorUnknown refuses: nobody knows how many pods are expected, which the floor is reckoned from.
	RefusedFloorUnknown Outcome = "FloorUnknown"
	// RefusedVanished refuses: the protector is gone, and nobody has released it. Decide does not say so: whoever knows does.
	RefusedVanished Outcome = "Vanished"
	// RefusedRestored refuses: the protector or its core was restored, and not all of its cells are counted anew yet.
	RefusedRestored Outcome = "Restored"
	// RefusedNameless refuses: without a pod UID a removal cannot be told from its repetition.
	RefusedNameless Outcome = "Nameless"
)

// Admitted tells whether the removal may go on.
func (o Outcome) Admitted() bool { return o == Reserved || o == Renewed || o == Waived }

// Written tells whether the outcome changed the history, so that it holds only once the status is written.
func (o Outcome) Written() bool { return o == Reserved || o == Renewed }

// Verdict is the answer to one removal.
type Verdict struct {
	Outcome Outcome
	// Budget is the budget that the removal met, before it was charged.
	Budget Budget
	// Loss is what RefusedDomainLoss fears; nil unless that is the outcome, or was without Force.
	Loss *DomainLoss
	// Forced is the outcome that a removal would have had without Force; empty when it made no difference.
	Forced Outcome
	// Claim is what a Reserved or Renewed removal may give back.
	Claim Claim
}

// Decide answers removals in their order and makes their reservations in p.Status, which must be the caller's
// own copy. Removals that are admitted hold only after that status was written by compare-and-swap.
func Decide(p *v1alpha1.PodProtector, removals []Removal) []Verdict {
	budget := BudgetOf(p)
	losses := domainLossesOf(p, budget)
	verdicts := make([]Verdict, len(removals))
	at := latestAttempt(removals)
	for i, removal := range removals {
		removal.At = at
		own := ownDiscount(p, removal.Cell)
		met := budget
		met.Available += own
		var charged int
		if verdicts[i], charged = decide(p, met, losses, removal); charged > 0 {
			budget.Reserved += charged
			losses.charge(removal.Cell)
			budget.Available += own - ownDiscount(p, removal.Cell)
		}
	}
	return verdicts
}

// latestAttempt is the time that all removals of one write are given: a merged bucket keeps equal times in less space. A later time than
// that of the attempt is the stricter one.
func latestAttempt(removals []Removal) time.Time {
	latest := time.Time{}
	for i := range removals {
		if at := removals[i].At; at.After(latest) {
			latest = at
		}
	}
	return latest
}

// decide returns the verdict on one removal, and how much it reduces the budget.
func decide(p *v1alpha1.PodProtector, budget Budget, losses *domainLosses, r Removal) (verdict Verdict, charged int) {
	verdict = Verdict{Budget: budget}
	if r.PodUID == "" {
		verdict.Outcome = RefusedNameless
		return verdict, 0
	}
	cell := CellOf(p, r.Cell)
	if cell != nil && cell.Discount == v1alpha1.DiscountCleared {
		cell = nil
	}
	var at place
	var repeated bool
	if cell != nil {
		at, repeated = find(&cell.AdmissionHistory, r.PodUID)
	}
	// What is accounted for by the counts costs nothing more, until the pod has come back and is to go again.
	paid := repeated && !cell.AdmissionHistory.Buckets[at.bucket].Accounted
	reason := objection(p, budget, cell != nil, paid)
	switch {
	case reason != "" || cell == nil:
	case cell.Discount == v1alpha1.DiscountDraining:
		// Also of a removal that is reserved: a client that repeats one for ever would keep the Cell from being removed.
		reason = RefusedDraining
	case !repeated && r.Generation > 0 && updates(&cell.AdmissionHistory) >= mostUpdates:
		reason = RefusedUpdates
	case !paid:
		reason, verdict.Loss = losses.objection(r)
	}
	if reason != "" {
		if !r.Force {
			verdict.Outcome = reason
			return verdict, 0
		}
		verdict.Forced = reason
	}
	if cell != nil && !paid {
		charged = 1
	}
	switch {
	case cell == nil:
		verdict.Outcome = Waived
	case repeated:
		verdict.Outcome, verdict.Claim = Renewed, renew(&cell.AdmissionHistory, at, r)
	default:
		reserve(&cell.AdmissionHistory, r, r.At).Token = r.Token
		verdict.Outcome, verdict.Claim = Reserved, Claim{Token: r.Token}
	}
	return verdict, charged
}

// objection is why a removal must be refused; empty when nothing speaks against it. counted tells whether its cell ever
// was, paid that the removal is reserved already, and reduces the budget.
func objection(p *v1alpha1.PodProtector, budget Budget, counted, paid bool) Outcome {
	limit := int(p.Spec.AdmissionHistory.MaxConcurrentLag)
	switch {
	case (budget.FloorUnknown || budget.Floor > 0) && isRecounted(p):
		return RefusedRestored
	case budget.FloorUnknown:
		return RefusedFloorUnknown
	case !counted && budget.Floor > 0:
		return RefusedNeverAggregated
	case !counted:
		return ""
	case paid && budget.Floor > 0 && budget.Left() < 0:
		// Since it was made, pods were lost by themselves or the floor was raised: whatever becomes of the earlier
		// attempt, this one would break the floor.
		return RefusedNoBudget
	case paid:
		return ""
	case limit > 0 && budget.Reserved >= limit:
		return RefusedFull
	case budget.Floor > 0 && budget.Left() <= 0:
		return RefusedNoBudget
	default:
		return ""
	}
}

// reserve adds a single reservation.
func reserve(h *v1alpha1.AdmissionHistory, r Removal, stamp time.Time) *v1alpha1.Bucket {
	bucket := v1alpha1.Bucket{
		// The stored time has microseconds.
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

// renew moves a reservation to the end, as a single one with a new stamp. The stamp always grows, whatever
// clock the removal came with: two attempts with one stamp would share one timer, and the later of them could
// be taken for expired.
func renew(h *v1alpha1.AdmissionHistory, at place, r Removal) Claim {
	old := h.Buckets[at.bucket]
	stamp := r.At
	if after := latest(&old).Add(time.Microsecond); stamp.Before(after) {
		stamp = after
	}
	remove(h, at)
	renewed := reserve(h, r, stamp)
	carryOver(renewed, &old)
	return join(renewed, &old)
}

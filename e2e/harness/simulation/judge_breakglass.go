package simulation

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// Break-glass removals in scenarios with shares. One that overrode a denial is not limited by the floor: it counts as a pod that has died. One
// that had budget is judged like any other. Each is charged: once a webhook has admitted it, the webhook reserves no other removal with an
// object that does not have its reservation, whether the share or the protector decides (rule S6).

// breakGlassRemovals are the break-glass removals that overrode a denial. The lock of the judge guards them.
type breakGlassRemovals struct {
	// overridden are the pods that they remove. A later request for such a pod is admitted by the same reservation.
	overridden map[types.UID]bool
	// charges are those that each process must have charged.
	charges map[*replica][]breakGlassCharge
	// firstReviews are the first requests to remove each pod.
	firstReviews map[types.UID]*removal
}

// breakGlassCharge is a break-glass removal that a webhook has admitted in a cell.
type breakGlassCharge struct {
	removal *removal
	// version is the version of the pod that was reviewed.
	version uint64
	cell    string
	at      time.Time
}

func newBreakGlassRemovals() *breakGlassRemovals {
	return &breakGlassRemovals{overridden: map[types.UID]bool{}, charges: map[*replica][]breakGlassCharge{}, firstReviews: map[types.UID]*removal{}}
}

// isOverridden reports whether a removal that takes effect overrode a denial, or another request for its pod did. r is nil for none.
func (b *breakGlassRemovals) isOverridden(r *removal) bool { return r != nil && b.overridden[r.uid] }

// forgetCharges leaves out all charges that were made before a restore of a cluster, which may have undone them.
func (b *breakGlassRemovals) forgetCharges() { clear(b.charges) }

// recordReview records a request to remove a pod. A nil shareJudge records nothing.
func (j *shareJudge) recordReview(r *removal) {
	if j != nil && j.breakGlass.firstReviews[r.uid] == nil {
		j.breakGlass.firstReviews[r.uid] = r
	}
}

// judgeAllowed records an answer that overrides a denial, and judges each other one that allows a removal. A nil shareJudge judges nothing.
func (j *shareJudge) judgeAllowed(p *replica, cell string, r *removal, answer removals.Answer) {
	switch {
	case j == nil:
	case overriddenDenial(answer) != "":
		j.breakGlass.overridden[r.uid] = true
		charge := breakGlassCharge{removal: r, version: parseVersion(r.reviewed.ResourceVersion), cell: cell, at: time.Now()}
		j.breakGlass.charges[p] = append(j.breakGlass.charges[p], charge)
	case j.breakGlass.firstReviews[r.uid] == r: // otherwise an earlier reservation may have admitted it
		for _, charge := range j.breakGlass.charges[p] {
			if charge.cell == cell && charge.at.Before(r.requestedAt) && time.Since(charge.at) < requestLimit {
				j.judgeCharge(p, r, &charge)
			}
		}
	}
}

// judgeCharge judges whether a process that has just reserved a removal had charged an earlier break-glass removal to the same object. A pod that has
// changed since may not need a reservation any more.
func (j *shareJudge) judgeCharge(p *replica, r *removal, charge *breakGlassCharge) {
	line := j.history.cells[charge.cell].pods[charge.removal.uid]
	if line == nil || line.current().version != charge.version {
		return
	}
	for _, key := range slices.SortedFunc(maps.Keys(j.protectors), protectorKey.compare) {
		w := j.protectors[key]
		if !line.current().isCharged(w.watchedProtector, charge.at) || w.floors.lowestSince(charge.at) == 0 {
			continue // with a floor of zero nothing is reserved
		}
		isReserved, isCharged := false, false
		for _, object := range []*v1alpha1.PodProtector{w.stored, j.shares[charge.cell][key]} {
			if object == nil || quota.CellOf(object, charge.cell) == nil {
				continue
			}
			history := &quota.CellOf(object, charge.cell).AdmissionHistory
			if hasReservation(history, quota.HashUID(r.uid)) {
				isReserved, isCharged = true, isCharged || hasReservation(history, quota.HashUID(charge.removal.uid))
			}
		}
		if isReserved && !isCharged {
			j.report.fail("rule S6: %s reserved the removal of %s with protector %s, and did not charge the break-glass removal %s of %s before",
				p.name, r.pod.Name, w.name(), charge.removal.id, line.name)
		}
	}
}

package judge

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
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
	charges map[*Replica][]breakGlassCharge
	// firstReviews are the first requests to remove each pod.
	firstReviews map[types.UID]*Removal
}

// breakGlassCharge is a break-glass removal that a webhook has admitted in a cell.
type breakGlassCharge struct {
	removal *Removal
	// version is the version of the pod that was reviewed.
	version uint64
	cell    string
	at      time.Time
}

func newBreakGlassRemovals() *breakGlassRemovals {
	return &breakGlassRemovals{overridden: map[types.UID]bool{}, charges: map[*Replica][]breakGlassCharge{}, firstReviews: map[types.UID]*Removal{}}
}

// isOverridden reports whether a removal that takes effect overrode a denial, or another request for its pod did. r is nil for none.
func (b *breakGlassRemovals) isOverridden(r *Removal) bool { return r != nil && b.overridden[r.UID] }

// forgetCharges leaves out all charges that were made before a restore of a cluster, which may have undone them.
func (b *breakGlassRemovals) forgetCharges() { clear(b.charges) }

// recordReview records a request to remove a pod. A nil shareJudge records nothing.
func (j *shareJudge) recordReview(r *Removal) {
	if j != nil && j.breakGlass.firstReviews[r.UID] == nil {
		j.breakGlass.firstReviews[r.UID] = r
	}
}

// judgeAllowed records an answer that overrides a denial, and judges each other one that allows a removal. A nil shareJudge judges nothing.
func (j *shareJudge) judgeAllowed(p *Replica, cell string, r *Removal, answer removals.Answer) {
	switch {
	case j == nil:
	case OverriddenDenial(answer) != "":
		j.breakGlass.overridden[r.UID] = true
		charge := breakGlassCharge{removal: r, version: parseVersion(r.Reviewed.ResourceVersion), cell: cell, at: time.Now()}
		j.breakGlass.charges[p] = append(j.breakGlass.charges[p], charge)
	case j.breakGlass.firstReviews[r.UID] == r: // otherwise an earlier reservation may have admitted it
		for _, charge := range j.breakGlass.charges[p] {
			if charge.cell == cell && charge.at.Before(r.RequestedAt) && time.Since(charge.at) < scenario.RequestLimit {
				j.judgeCharge(p, r, &charge)
			}
		}
	}
}

// judgeCharge judges whether a process that has just reserved a removal had charged an earlier break-glass removal to the same object. A pod that has
// changed since may not need a reservation any more.
func (j *shareJudge) judgeCharge(p *Replica, r *Removal, charge *breakGlassCharge) {
	line := j.history.cells[charge.cell].pods[charge.removal.UID]
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
			if hasReservation(history, quota.HashUID(r.UID)) {
				isReserved, isCharged = true, isCharged || hasReservation(history, quota.HashUID(charge.removal.UID))
			}
		}
		if isReserved && !isCharged {
			j.report.fail("rule S6: %s reserved the removal of %s with protector %s, and did not charge the break-glass removal %s of %s before",
				p.Name, r.Pod.Name, w.name(), charge.removal.ID, line.name)
		}
	}
}

// isForced reports whether a pod may have been reviewed with the force-delete annotation. A restore may have removed the annotation since.
func (t *cellHistory) isForced(hash quota.UIDHash) bool { return t.forcedPods[hash] }

// recordForce records whether a pod has the force-delete annotation.
func (t *cellHistory) recordForce(pod *corev1.Pod) {
	if metav1.HasAnnotation(pod.ObjectMeta, v1alpha1.AnnotationForceDelete) {
		t.forcedPods[quota.HashUID(pod.UID)] = true
	}
}

// OverriddenDenial returns the denial that an answer overrode by force; empty if it overrode none.
func OverriddenDenial(answer removals.Answer) removals.VerdictReason {
	if answer.Verdict != removals.VerdictForced {
		return ""
	}
	return answer.Overridden.Verdict
}

// isPendingForcedReservation reports whether a removal by force may be reserved later, because its webhook got no answer from the core. A removal that a
// protector denies for lack of budget has its reservation. If several protectors cover the pod, the answer names only one.
func (h *clusterHistory) isPendingForcedReservation(cell string, line *podHistory, overrode removals.VerdictReason) bool {
	if overrode == "" || !h.cells[cell].isForced(quota.HashUID(line.uid)) {
		return false
	}
	covering := 0
	for _, w := range h.protectors {
		if w.covers(line.current().pod) {
			covering++
		}
	}
	return covering > 1 || !isLackOfBudget(overrode)
}

// countForcedReservations counts the new reservations of a write for pods that are removed by force. The order of the decisions in one write is unknown,
// so that the others may have been decided without these.
func (h *clusterHistory) countForcedReservations(e *apiserver.Event) int {
	stored, _ := e.New.(*v1alpha1.PodProtector)
	old, _ := e.Old.(*v1alpha1.PodProtector)
	n := 0
	for i := range stored.Status.Cells {
		cell, before := &stored.Status.Cells[i], &v1alpha1.PodProtectorCell{}
		if old != nil {
			before = cmp.Or(quota.CellOf(old, cell.CellID), before)
		}
		n += h.countForcedReservationsOfCell(cell, before)
	}
	return n
}

// countForcedReservationsOfCell counts those of a cell.
func (h *clusterHistory) countForcedReservationsOfCell(cell, before *v1alpha1.PodProtectorCell) int {
	isReservedBefore, n := reservationHashes(&before.AdmissionHistory), 0
	for hash := range reservationHashes(&cell.AdmissionHistory) {
		if !isReservedBefore[hash] && h.cells[cell.CellID].isForced(hash) {
			n++
		}
	}
	return n
}

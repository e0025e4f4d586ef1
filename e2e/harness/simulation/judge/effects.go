package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// effectJudge judges removals when they take effect: the floor must hold, and the removal must have been reserved. The lock of the judge
// guards it.
type effectJudge struct {
	history *clusterHistory
	report  *report
	// effecting is the removal that is about to change the store, by cell.
	effecting map[string]*Removal
}

// judgePodChange judges a change of a pod.
func (j *effectJudge) judgePodChange(cell string, t *cellHistory, e *apiserver.Event) {
	line, before, after := t.observe(e)
	j.report.trace.Add("%s: pod %s %s by %s: %s", cell, line.name, strings.ToLower(string(e.Type)), writerOrSimulator(e.By), describe(after))
	if before == nil || before.isGoneOrTerminating() {
		return
	}
	if !after.isReady() {
		t.recordLossEnd(line.uid, time.Now().Add(j.history.clockTolerance))
	}
	r := j.effecting[cell]
	byRemoval := r != nil && e.By == RemovalActor(r)
	if !byRemoval {
		j.recordLoss(t, *before, after, e.Version)
		return
	}
	j.report.counts.Effective++
	if r.Bypass != nil {
		j.judgeBypass(t, r, line, *before, after, e.Version)
		return
	}
	for _, key := range j.history.sortedProtectors() {
		w := j.history.protectors[key]
		if r.Relabel != nil && !j.isRelabelCharged(t, w, r, *before, e.Version) || r.Update != nil && !j.isRestartCharged(t, w, r, *before, line) {
			continue
		}
		j.judgeEffect(w, r, cell, line, *before, e.Version)
	}
}

func writerOrSimulator(by string) string {
	if by == "" {
		return "the world"
	}
	return by
}

func describe(s podState) string {
	status, _ := s.readyCondition()
	switch {
	case s.isDeleted:
		return "gone"
	case s.isGoneOrTerminating():
		return "terminating"
	default:
		return fmt.Sprintf("%s, ready %q, %v", s.pod.Status.Phase, status, s.pod.Labels)
	}
}

// recordLoss records a change of a pod that no client requested. It is a loss for each protector that counted the pod before and not after.
func (j *effectJudge) recordLoss(t *cellHistory, before, after podState, version uint64) {
	if before.isReady() && (!after.isReady() || !maps.Equal(before.pod.Labels, after.pod.Labels)) {
		j.report.counts.Losses++
	}
	t.losses = append(t.losses, loss{excuse: lossByItself, restores: t.restores, version: version, before: before, after: after})
}

// judgeEffect checks the promise itself: the floor must hold when an admitted removal has taken effect.
func (j *effectJudge) judgeEffect(w *watchedProtector, r *Removal, cellID string, line *podHistory, before podState, version uint64) {
	t, now := j.history.cells[cellID], time.Now().Add(j.history.clockTolerance)
	if !before.isAvailable(w, now) {
		return
	}
	decided, reserved := w.decisionOn(r, line.uid)
	charged := r.Reviewed != nil && j.history.wasCharged(w, r, line.states[:len(line.states)-1])
	floor := w.floors.forDecision(decided.floor, decided.position)
	available := 0
	counts := func(cell string) bool { return w.doesCellCountFor(cell, cellID, decided.firstCharge) }
	for name, cell := range j.history.cells {
		if counts(name) {
			available += cell.available(w, now)
		}
	}
	// The loss applies to this protector alone: another protector may have reserved the removal, and the loss must not excuse it as well.
	lost := func(why Excuse) {
		t.losses = append(t.losses, loss{excuse: why, restores: t.restores, version: version, before: before, after: line.current(), protector: w})
	}
	switch {
	case !reserved && !w.covers(before.pod):
		lost(lossUncovered) // it counts, but is not protected
		return
	case (!reserved || r.Reviewed != nil && wasOutside(w, r, line.states[:len(line.states)-1]) ||
		decided.snapshots[cellID].restores < r.RestoresBefore || decided.isRestored && !r.RequestedAt.After(decided.at)) && !charged:
		// "The readiness race": the pod was not available when it was reviewed. A reservation from before the restore of the cell was for
		// another removal, since none outlives a restore. So was a reservation that a restore of the core brought back: a decision in the
		// lost time may have been made without it. So was that of a relabel by which the pod had left the coverage when the webhook
		// read it.
		j.report.counts.Races++
		lost(lossByReadinessRace)
		return
	case !reserved:
		if why := j.judgeUnreserved(w, r, cellID, line, before, now); why != "" {
			lost(why)
		}
		return
	case decided.countedSpec != quota.CountedSpec(&w.stored.Spec) || w.coverage.hasChangedSince(decided.version):
		return // the decision promised nothing about the pods that count now; the pod stays reserved for later decisions
	}
	isCharged := (charged || r.Reviewed == nil) && !w.floors.isDecidedAtZero(r.RequestedAt)
	w.reservations.recordRemoval(line.uid, r, isCharged)
	if decided.isForced || r.OverriddenDenial != "" && t.isForced(quota.HashUID(line.uid)) {
		j.report.counts.Forced++
		lost(lossForced)
		t.losses[len(t.losses)-1].lastDecision = decided.firstCharge.version
		return
	}
	excused := j.countExcusedPods(w, decided, counts, now, floor-available)
	switch {
	case available+excused >= floor:
	case decided.isBlindToRestore:
		j.report.countExcuse(excuseWebhookAfterRestore)
		lost(lossWebhookAfterRestore)
		return
	default:
		j.report.fail("over-admission: removal %s of %s left %d pods of protector %s available (and %d lost without a removal); the floor is %d",
			r.ID, line.name, available, w.name(), excused, floor)
	}
	j.judgeDomainLoss(w, r, cellID, line, decided.firstCharge, now)
}

// judgeUnreserved judges an effect that was never reserved. It returns why other decisions lose the pod; "" if they do not.
func (j *effectJudge) judgeUnreserved(w *watchedProtector, r *Removal, cellID string, line *podHistory, before podState, now time.Time) Excuse {
	switch {
	case j.history.isPendingForcedReservation(cellID, line, r.OverriddenDenial):
		j.report.countExcuse(excuseForcedUnreserved)
		return lossForced
	case r.Update != nil && w.reservations.overduePods[quota.HashUID(line.uid)]:
		j.report.countExcuse(excuseOverdue)
		return lossOverdue
	case w.isExcludedFromCounts(r, cellID, before, now):
		return "" // it was admitted by an earlier spec, and the pod must not have been counted by this one yet
	case w.isUnseenBy(r):
		j.report.countExcuse(excuseUnseenProtector)
		return lossUnseenProtector
	case w.floors.isDecidedAtZero(r.RequestedAt):
		j.report.countExcuse(excuseZeroFloor)
		return lossZeroFloor
	default:
		j.report.fail("removal %s of %s took effect, but protector %s never reserved it", r.ID, line.name, w.name())
		return ""
	}
}

// toleratesDomainLoss reports whether a protector must tolerate the loss of a cell.
func (w *watchedProtector) toleratesDomainLoss() bool {
	return w.stored.Spec.Spread != nil && w.stored.Spec.Spread.TolerateDomainLoss
}

// judgeStoredDomainLoss checks by the stored status whether a new reservation in a cell leaves enough pods outside each other cell.
func (j *reservationJudge) judgeStoredDomainLoss(w *watchedProtector, in string, e *apiserver.Event) {
	floor := floorOf(w.stored)
	if !w.toleratesDomainLoss() || floor == 0 {
		return
	}
	for _, lost := range w.stored.Status.Cells {
		if lost.CellID == in {
			continue
		}
		left := 0
		for i := range w.stored.Status.Cells {
			c := &w.stored.Status.Cells[i]
			if c.CellID != lost.CellID && (c.CellID == in || !isDiscounted(c)) && c.Aggregation.CountedSpec == quota.CountedSpec(&w.stored.Spec) {
				left += max(0, int(c.Aggregation.CountedReplicas)-countOpenReservations(&c.AdmissionHistory))
			}
		}
		if left < floor {
			j.report.fail("%s admitted a removal in %s with protector %s of which %d pods are left if %s is lost; the floor is %d",
				e.By, in, w.name(), left, lost.CellID, floor)
		}
	}
}

// judgeDomainLoss checks the promise after a removal took effect in a cell: the loss of each other cell must leave the floor.
func (j *effectJudge) judgeDomainLoss(w *watchedProtector, r *Removal, in string, line *podHistory, made charge, now time.Time) {
	floor := w.floors.forDecision(made.floor, made.position)
	if !w.toleratesDomainLoss() || floor == 0 {
		return
	}
	for _, lost := range slices.Sorted(maps.Keys(j.history.cells)) {
		if lost == in {
			continue
		}
		left, excused := 0, 0
		for name, cell := range j.history.cells {
			if name != lost && w.doesCellCountFor(name, in, made) {
				left += cell.available(w, now)
				excused += cell.countLosses(made.snapshots[name], w, made.version, now, "")
			}
		}
		if left+excused < floor {
			j.report.fail("removal %s of %s left %d pods of protector %s outside %s (and %d were lost without a removal); the floor is %d",
				r.ID, line.name, left, w.name(), lost, excused, floor)
		}
	}
}

// intolerableLoss returns which loss would break the floor after one more removal in a cell, or "" if none would.
func (h *clusterHistory) intolerableLoss(w *watchedProtector, in string) string {
	floor := floorOf(w.stored)
	if !w.toleratesDomainLoss() || floor == 0 {
		return ""
	}
	for _, lost := range slices.Sorted(maps.Keys(h.cells)) {
		left := 0
		for name, cell := range h.cells {
			pods := cell.available(w, time.Now())
			if name == in {
				pods = max(0, pods-1) // one that is charged need not be counted
			}
			if name != lost {
				left += pods
			}
		}
		if lost != in && left < floor {
			return fmt.Sprintf("protector %s would have %d left of a floor of %d if %s was lost", w.name(), left, floor, lost)
		}
	}
	return ""
}

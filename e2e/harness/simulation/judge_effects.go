package simulation

import (
	"fmt"
	"maps"
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
	effecting map[string]*removal
}

// judgePodChange judges a change of a pod.
func (j *effectJudge) judgePodChange(cell string, t *cellHistory, e *apiserver.Event) {
	line, before, after := t.observe(e)
	j.report.trace.add("%s: pod %s %s by %s: %s", cell, line.name, strings.ToLower(string(e.Type)), writerOrSimulator(e.By), describe(after))
	if before == nil || before.isGoneOrTerminating() {
		return
	}
	if !after.isReady() {
		t.recordLossEnd(line.uid, time.Now().Add(j.history.clockTolerance))
	}
	r := j.effecting[cell]
	byRemoval := r != nil && e.By == removalActor(r)
	if !byRemoval {
		j.recordLoss(t, *before, after, e.Version)
		return
	}
	j.report.counts.Effective++
	if r.bypass != nil {
		j.judgeBypass(t, r, line, *before, after, e.Version)
		return
	}
	for _, key := range j.history.sortedProtectors() {
		w := j.history.protectors[key]
		if r.relabel != nil && !j.isRelabelCharged(t, w, r, *before, e.Version) || r.update != nil && !j.isRestartCharged(t, w, r, *before, line) {
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
func (j *effectJudge) judgeEffect(w *watchedProtector, r *removal, cellID string, line *podHistory, before podState, version uint64) {
	t, now := j.history.cells[cellID], time.Now().Add(j.history.clockTolerance)
	if !before.isAvailable(w, now) {
		return
	}
	decided, reserved := w.reservations.decisions[quota.HashUID(line.uid)]
	charged := r.reviewed != nil && j.history.wasCharged(w, r, line.states[:len(line.states)-1])
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
	case (!reserved || r.reviewed != nil && wasOutside(w, r, line.states[:len(line.states)-1]) ||
		decided.snapshots[cellID].restores < r.restoresBefore || decided.isRestored && !r.requestedAt.After(decided.at)) && !charged:
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
	isCharged := (charged || r.reviewed == nil) && !w.floors.isDecidedAtZero(r.requestedAt)
	w.reservations.recordRemoval(line.uid, r, isCharged)
	if decided.isForced || r.overriddenDenial != "" && t.isForced(quota.HashUID(line.uid)) {
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
			r.id, line.name, available, w.name(), excused, floor)
	}
	j.judgeDomainLoss(w, r, cellID, line, decided.firstCharge, now)
}

// judgeUnreserved judges an effect that was never reserved. It returns why other decisions lose the pod; "" if they do not.
func (j *effectJudge) judgeUnreserved(w *watchedProtector, r *removal, cellID string, line *podHistory, before podState, now time.Time) Excuse {
	switch {
	case j.history.isPendingForcedReservation(cellID, line, r.overriddenDenial):
		j.report.countExcuse(excuseForcedUnreserved)
		return lossForced
	case r.update != nil && w.reservations.overduePods[quota.HashUID(line.uid)]:
		j.report.countExcuse(excuseOverdue)
		return lossOverdue
	case w.isExcludedFromCounts(r, cellID, before, now):
		return "" // it was admitted by an earlier spec, and the pod must not have been counted by this one yet
	case w.isUnseenBy(r):
		j.report.countExcuse(excuseUnseenProtector)
		return lossUnseenProtector
	case w.floors.isDecidedAtZero(r.requestedAt):
		j.report.countExcuse(excuseZeroFloor)
		return lossZeroFloor
	default:
		j.report.fail("removal %s of %s took effect, but protector %s never reserved it", r.id, line.name, w.name())
		return ""
	}
}

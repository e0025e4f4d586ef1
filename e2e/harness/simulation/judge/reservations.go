package judge

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// reservationJudge judges reservations: each belongs to a request and to budget, stays until its pod is accounted for, and exists when a webhook
// allows its removal. The lock of the judge guards it.
type reservationJudge struct {
	history *clusterHistory
	report  *report
	// openRemovals are the admitted requests that may still take effect, by cell and pod, with the times of their reviews.
	openRemovals map[openKey]map[*Removal]time.Time
	// requested are the pods whose removal a client has requested, other than as a dry run.
	requested map[openKey]bool
}

type openKey struct {
	cell string
	uid  types.UID
}

// judgeReservations judges which reservations a write adds and drops.
func (j *reservationJudge) judgeReservations(w *watchedProtector, cell, before *v1alpha1.PodProtectorCell, e *apiserver.Event) {
	was, is := reservationTimes(&before.AdmissionHistory), map[quota.UIDHash]bool{}
	total := 0
	for r := range quota.Reservations(&cell.AdmissionHistory) {
		total++
		if is[r.Hash] {
			j.report.fail("protector %s holds two reservations for one pod of %s", w.name(), cell.CellID)
		}
		is[r.Hash] = true
	}
	escrowed := countEscrowed(&cell.AdmissionHistory)
	if open, holds := quota.Open(&cell.AdmissionHistory), total-len(accountedReservations(&cell.AdmissionHistory))+escrowed; open != holds {
		j.report.fail("the counters of protector %s record %d reservations of %s, but it holds %d", w.name(), open, cell.CellID, holds)
	}
	j.judgeAccounted(w, cell)
	fresh, forced := false, j.history.countForcedReservations(e)
	wasAccounted := accountedReservations(&before.AdmissionHistory)
	for hash, stamp := range reservationTimes(&cell.AdmissionHistory) {
		earlier, held := was[hash]
		if !held {
			fresh = true
			// After a restore the pod may be unknown to the judge.
			line, was := j.history.cells[cell.CellID].byHash[hash], j.history.cells[cell.CellID].restores > 0
			if line == nil && !was || line != nil && !j.requested[openKey{cell.CellID, line.uid}] {
				j.report.fail("%s reserved a removal with protector %s that no client has asked for", e.By, w.name())
			}
		}
		// A repeated removal is decided again. Merged reservations do not show repetitions.
		if !held || !stamp.IsZero() && !earlier.IsZero() && !stamp.Equal(earlier) {
			j.judgeDecision(w, cell, before, hash, held && !wasAccounted[hash], forced, e)
		}
	}
	if fresh {
		j.judgeAdmission(w, e, forced > 0)
	}
	if fresh && forced == 0 {
		j.judgeStoredDomainLoss(w, cell.CellID, e)
	}
	for hash := range was {
		if !is[hash] {
			j.judgeDrop(w, cell, hash, e)
		}
	}
	j.judgeEscrows(w, cell, before, e)
}

// judgeDecision records the decision on a reservation, and judges whether the stored budget allowed it. forced is the number of new reservations
// by force in the same write.
func (j *reservationJudge) judgeDecision(
	w *watchedProtector, cell, before *v1alpha1.PodProtectorCell, hash quota.UIDHash, isRenewed bool, forced int, e *apiserver.Event,
) {
	decided := j.history.newDecision(w)
	mayName := hadEscrow(before, e)
	if byEscrow, ok := w.decisionOfEscrow(cell.CellID, hash, e); ok && mayName {
		decided = byEscrow
	}
	switch earlier, known := w.reservations.decisions[hash]; {
	case known && isRenewed:
		decided.firstCharge, decided.lost = earlier.firstCharge, earlier.lost
	case known && w.lostReservations[hash] && !earlier.at.After(w.lastRestore):
		decided.lost = &earlier
	}
	by, _ := writingProcess(e)
	decided.isBlindToRestore = j.history.isRestoreUndetectable(w, j.history.processStarts[by])
	w.reservations.decisions[hash] = decided
	available, reserved := w.storedTotals()
	available += w.discounted(cell) // its own pods count for a removal in it
	floor, known := writtenFloor(w.stored)
	named := j.countNamed(w, cell, before)
	switch left := available - reserved - floor; {
	case (left < 0 || !known || w.toleratesDomainLoss()) && j.history.cells[cell.CellID].isForced(hash):
		w.reservations.recordForced(hash)
	// It names what was reserved before, or what has gone, perhaps for a second time because it did not hear of the first: that takes no more pods.
	case (mayName || named > 0 || w.escrows.holders[by]) && reserved-named <= reservedIn(e.Old):
	case left < -forced && floor > 0:
		j.report.fail("%s admitted a removal with protector %s that leaves %d pods too few", e.By, w.name(), -left)
	}
}

// reservedIn returns the number of open reservations of a protector in all cells.
func reservedIn(object client.Object) (n int) {
	if p, ok := object.(*v1alpha1.PodProtector); ok {
		for i := range p.Status.Cells {
			n += countOpenReservations(&p.Status.Cells[i].AdmissionHistory)
		}
	}
	return n
}

// countNamed counts the new reservations of a write for pods that are gone or terminating, or whose removal an escrow has admitted: another one that a
// restore has lost, or that was ended.
func (j *reservationJudge) countNamed(w *watchedProtector, cell, before *v1alpha1.PodProtectorCell) (n int) {
	isReservedBefore, t := reservationHashes(&before.AdmissionHistory), j.history.cells[cell.CellID]
	for hash := range reservationHashes(&cell.AdmissionHistory) {
		line := t.byHash[hash]
		if !isReservedBefore[hash] && (w.escrows.ever[hash] || line == nil || line.current().isGoneOrTerminating()) {
			n++
		}
	}
	return n
}

// judgeAdmission judges the limit and the writer of a new reservation.
func (j *reservationJudge) judgeAdmission(w *watchedProtector, e *apiserver.Event, forced bool) {
	_, reserved := w.storedTotals()
	if limit := int(w.stored.Spec.AdmissionHistory.MaxConcurrentLag); limit > 0 && reserved > limit && !forced {
		j.report.fail("protector %s holds %d reservations, limit %d", w.name(), reserved, limit)
	}
	if !strings.HasPrefix(e.By, "webhook") {
		j.report.fail("%s made a reservation", writerOrSimulator(e.By))
	}
}

// judgeDrop allows the drop of a reservation only when its pod is accounted for, or no client may act on it any more.
func (j *reservationJudge) judgeDrop(w *watchedProtector, cell *v1alpha1.PodProtectorCell, hash quota.UIDHash, e *apiserver.Event) {
	t := j.history.cells[cell.CellID]
	line := t.byHash[hash]
	if line == nil {
		if t.restores == 0 {
			j.report.fail("%s dropped a reservation from protector %s for a pod that %s never had", writerOrSimulator(e.By), w.name(), cell.CellID)
		}
		return // a restore has undone the pod
	}
	if j.history.isAccountedFor(w, cell, line, false) {
		return
	}
	if j.history.isAccountedFor(w, cell, line, strings.HasPrefix(e.By, "aggregator")) {
		if len(j.openRemovals[openKey{cell.CellID, line.uid}]) > 0 {
			j.report.countExcuse(excuseNewerList)
		}
		delete(w.reservations.removals, hash) // a list has shown that the pod does not exist: no later count includes it
		return
	}
	byWebhook := strings.HasPrefix(e.By, "webhook")
	if r := w.reservations.removals[hash]; r != nil && w.lastRestore.IsZero() && t.restores == 0 && line.current().isGoneOrTerminating() {
		if j.history.isPendingForcedReservation(cell.CellID, line, r.OverriddenDenial) && byWebhook {
			j.report.countExcuse(excuseForcedDrop) // a denied request for the pod gave back what it had reserved
			t.excuseUntilCounted(w, line.uid)
		} else {
			j.report.fail("%s dropped the reservation of pod %s from protector %s, which is removed and still counted", writerOrSimulator(e.By), line.name, w.name())
		}
	}
	isForgotten := false
	for r, requestedAt := range j.openRemovals[openKey{cell.CellID, line.uid}] {
		switch {
		case w.isLostInRestore(hash, requestedAt):
			j.report.countExcuse(excuseRestoreLostDrop)
			isForgotten = true
		case r.Reviewed == nil || !w.isChargedFor(r, r.Reviewed) || r.isMoot(line) || !j.history.wasCharged(w, r, line.states): // it consumed nothing
		case w.isUnchargedByEarlierSpec(r, line.current(), r.chargeableBy(w, j.history.clockTolerance)): // an earlier spec admitted it without a charge
		case w.floors.isDecidedAtZero(requestedAt):
			j.report.countExcuse(excuseZeroFloorDrop)
		case w.reservations.isOverdue(hash, r):
			j.report.countExcuse(excuseOverdueDrop)
			w.reservations.overduePods[hash] = true
		case j.history.isPendingForcedReservation(cell.CellID, line, r.OverriddenDenial) && (byWebhook || w.reservations.hasExpired(hash)):
			// It is not the removal that the reservation was made for.
			j.report.countExcuse(excuseForcedDrop)
		default:
			j.report.fail("%s dropped the reservation of pod %s from protector %s, and removal %s of it was admitted and may still take effect",
				writerOrSimulator(e.By), line.name, w.name(), r.ID)
		}
	}
	if isForgotten {
		return // a restored core had only part of the reservation: an effect is judged by its own decision
	}
	delete(w.reservations.removals, hash)
	delete(w.reservations.decisions, hash) // a client that removes the pod now does not use this reservation
}

// judgeAllowed judges an answer that allows a removal: its reservation must be stored in every core where the webhook knew a protector of the
// pod.
func (j *reservationJudge) judgeAllowed(p *Replica, cell string, r *Removal, answer removals.Answer) {
	if j.history.cells[cell].restores != r.RestoresBefore {
		return // no client gets the answer
	}
	line := j.history.existingPod(cell, r.Pod.Name)
	// The webhook itself reads the pod of an eviction. Only if the pod has not changed since is it certain what the webhook saw.
	if line == nil || line.current().version != parseVersion(r.Reviewed.ResourceVersion) {
		return
	}
	for _, key := range j.history.sortedProtectors() {
		w := j.history.protectors[key]
		status := quota.CellOf(w.stored, cell)
		if !w.isChargedFor(r, line.current().pod) || !line.current().isCharged(w, r.chargeableBy(w, j.history.clockTolerance)) ||
			status != nil && hasReservation(&status.AdmissionHistory, quota.HashUID(line.uid)) {
			continue
		}
		switch {
		case j.history.isPendingForcedReservation(cell, line, OverriddenDenial(answer)):
			j.report.countExcuse(excuseForcedAnswer)
		case w.isUnseenBy(r):
			j.report.countExcuse(excuseUnseenProtectorAnswer)
		case w.floors.isDecidedAtZero(r.RequestedAt):
			j.report.countExcuse(excuseZeroFloorAnswer)
		case w.isLostInRestore(quota.HashUID(line.uid), r.RequestedAt):
			j.report.countExcuse(excuseRestoreLostAnswer)
		case w.isWithoutStatus(quota.HashUID(line.uid)):
			j.report.countExcuse(excuseRecreatedAnswer)
		case status != nil && j.history.isAccountedFor(w, status, line, false): // a restore has brought it back, and the counts are from before
			j.report.countExcuse(excuseCountBeforeRestore)
		case w.admitByEscrow(cell, quota.HashUID(line.uid), r):
			j.report.counts.Escrowed++
		default:
			j.report.fail("%s allowed the removal of %s, but protector %s holds no reservation for it", p.Name, line.name, w.name())
		}
	}
}

// reservationTimes returns the reservations with their stamps. Merged ones have a zero stamp.
func reservationTimes(h *v1alpha1.AdmissionHistory) map[quota.UIDHash]time.Time {
	stamps := map[quota.UIDHash]time.Time{}
	for r := range quota.Reservations(h) {
		stamps[r.Hash] = time.Time{}
		if r.PodName != "" {
			stamps[r.Hash] = r.Stamp
		}
	}
	return stamps
}

func reservationHashes(h *v1alpha1.AdmissionHistory) map[quota.UIDHash]bool {
	hashes := map[quota.UIDHash]bool{}
	for r := range quota.Reservations(h) {
		hashes[r.Hash] = true
	}
	return hashes
}

func hasReservation(h *v1alpha1.AdmissionHistory, hash quota.UIDHash) bool {
	for r := range quota.Reservations(h) {
		if r.Hash == hash {
			return true
		}
	}
	return false
}

// judgeIdentity judges whether a webhook writes anything of a protector besides reservations. The policies of the chart allow the account
// of a cell only reservations (rule 15).
func (j *reservationJudge) judgeIdentity(w *watchedProtector, old *v1alpha1.PodProtector, e *apiserver.Event) {
	if old == nil || !strings.HasPrefix(e.By, "webhook") {
		return
	}
	if !equality.Semantic.DeepEqual(withoutReservations(old), withoutReservations(w.stored)) {
		j.report.fail("%s changed entries of protector %s besides reservations", e.By, w.name())
	}
	if !equality.Semantic.DeepEqual(old.Status.Conditions, w.stored.Status.Conditions) {
		j.report.fail("%s changed conditions of protector %s", e.By, w.name())
	}
}

func withoutReservations(p *v1alpha1.PodProtector) []v1alpha1.PodProtectorCell {
	entries := make([]v1alpha1.PodProtectorCell, len(p.Status.Cells))
	for i := range entries {
		entries[i] = p.Status.Cells[i]
		entries[i].AdmissionHistory = v1alpha1.AdmissionHistory{}
	}
	return entries
}

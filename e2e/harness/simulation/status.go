package simulation

import (
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// judgeStatus judges a write of a protector: nothing may be lost, and the counts must be true.
func (j *judge) judgeStatus(w *watchedProtector, old *v1alpha1.PodProtector, e *apiserver.Event) {
	for i := range w.stored.Status.Cells {
		cell := &w.stored.Status.Cells[i]
		var before v1alpha1.PodProtectorCell
		if old != nil {
			if c := quota.CellOf(old, cell.CellID); c != nil {
				before = *c
			}
		}
		j.judgeCounts(w, cell, &before)
		j.judgeWriter(w, cell, &before, e)
		j.judgeReservations(w, cell, &before, e)
		j.judgeExpectation(w, cell, &before, old)
	}
	j.judgeEntries(w, old, e)
	j.judgeIdentity(w, old, e)
	j.judgeSummary(w)
}

// judgeCounts compares the counts of a cell with the pods at their version.
func (j *judge) judgeCounts(w *watchedProtector, cell, before *v1alpha1.PodProtectorCell) {
	a, b := &cell.Aggregation, &before.Aggregation
	if a.Epoch == b.Epoch && a.Epoch > 0 && a.Holder != b.Holder && w.lastRestore.IsZero() {
		j.fail("%s and %s have both written cell %s of protector %s with epoch %d", b.Holder, a.Holder, cell.CellID, w.name(), a.Epoch)
	}
	if a.Epoch == b.Epoch && a.SnapshotVersion == b.SnapshotVersion && a.CountedReplicas == b.CountedReplicas &&
		a.Void == b.Void && a.CountedSpec == b.CountedSpec {
		return
	}
	version := parseVersion(a.SnapshotVersion)
	// A restored core issues an epoch twice.
	sameLeader := a.Epoch == b.Epoch && (a.Holder == b.Holder || w.lastRestore.IsZero())
	if a.Epoch < b.Epoch || sameLeader && version < parseVersion(b.SnapshotVersion) {
		j.fail("cell %s of protector %s went back from epoch %d version %s to epoch %d version %s",
			cell.CellID, w.name(), b.Epoch, b.SnapshotVersion, a.Epoch, a.SnapshotVersion)
	}
	if earlier := parseVersion(b.SnapshotVersion); !sameLeader && version < earlier && j.cells[cell.CellID].restores == 0 {
		j.fail("epoch %d of cell %s begins with version %d in protector %s, which epoch %d had counted at %d",
			a.Epoch, cell.CellID, version, w.name(), b.Epoch, earlier)
	}
	if a.Void || a.CountedSpec != quota.CountedSpec(&w.stored.Spec) {
		return
	}
	// After a restore, a snapshot may still be from before it, or leave out pods that had been seen to be gone then.
	t, then, goneSince, aged := j.cells[cell.CellID], 0, 0, 0
	first := j.earliestRestores(w.core, cell.CellID, a.Epoch)
	for era := first; era <= t.restores; era++ {
		then, goneSince, aged = t.availableAt(w, first, era, version, parseVersion(a.SettledVersion), a.LastEventTime.Time, j.clockTolerance)
		if got := int(a.CountedReplicas); got <= then && (got >= then-goneSince-aged || a.InTransition && w.mayBeInTransition()) {
			j.countCountExcuses(era < t.restores, got < then, got < then-goneSince && aged > 0)
			return
		}
	}
	got := int(a.CountedReplicas)
	j.fail("cell %s of protector %s says that %d pods were available at version %d; want %d, of which %d were deleted and %d may not have been observed",
		cell.CellID, w.name(), got, version, then, goneSince, aged)
}

// judgeReservations judges which reservations a write adds and drops.
func (j *judge) judgeReservations(w *watchedProtector, cell, before *v1alpha1.PodProtectorCell, e *apiserver.Event) {
	was, is := reservationTimes(&before.AdmissionHistory), map[quota.UIDHash]bool{}
	total := 0
	for r := range quota.Reservations(&cell.AdmissionHistory) {
		total++
		if is[r.Hash] {
			j.fail("protector %s holds two reservations for one pod of %s", w.name(), cell.CellID)
		}
		is[r.Hash] = true
	}
	if open, holds := quota.Open(&cell.AdmissionHistory), total-len(accountedReservations(&cell.AdmissionHistory)); open != holds {
		j.fail("the counters of protector %s record %d reservations of %s, but it holds %d", w.name(), open, cell.CellID, holds)
	}
	j.judgeAccounted(w, cell)
	fresh, forced := false, j.countForcedReservations(e)
	wasAccounted := accountedReservations(&before.AdmissionHistory)
	for hash, stamp := range reservationTimes(&cell.AdmissionHistory) {
		earlier, held := was[hash]
		if !held {
			fresh = true
			// After a restore the pod may be unknown to the judge.
			line, was := j.cells[cell.CellID].byHash[hash], j.cells[cell.CellID].restores > 0
			if line == nil && !was || line != nil && !j.requested[openKey{cell.CellID, line.uid}] {
				j.fail("%s reserved a removal with protector %s that no client has asked for", e.By, w.name())
			}
		}
		// A repeated removal is decided again. Merged reservations do not show repetitions.
		if !held || !stamp.IsZero() && !earlier.IsZero() && !stamp.Equal(earlier) {
			decided := j.newDecision(w)
			if earlier, known := w.decisions[hash]; known && held && !wasAccounted[hash] {
				decided.firstCharge = earlier.firstCharge
			}
			w.decisions[hash] = decided
			if by, _, _ := strings.Cut(e.By, "@"); j.isRestoreUndetectable(w, j.processStarts[by]) {
				decided := w.decisions[hash]
				decided.isBlindToRestore = true
				w.decisions[hash] = decided
			}
			available, reserved := w.storedTotals()
			available += w.discounted(cell) // its own pods count for a removal in it
			floor, known := writtenFloor(w.stored)
			switch left := available - reserved - floor; {
			case (left < 0 || !known || w.toleratesDomainLoss()) && j.cells[cell.CellID].isForced(hash):
				w.recordForcedDecision(hash)
			case left < -forced && floor > 0:
				j.fail("%s admitted a removal with protector %s that leaves %d pods too few", e.By, w.name(), -left)
			}
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

// storedTotals sums the cells of the stored status: the pods that may count as available in cells that are not discounted, and the reservations.
func (w *watchedProtector) storedTotals() (available, reserved int) {
	for i := range w.stored.Status.Cells {
		c := &w.stored.Status.Cells[i]
		if c.Aggregation.CountedSpec == quota.CountedSpec(&w.stored.Spec) {
			available += int(c.Aggregation.CountedReplicas) - w.discounted(c)
		}
		reserved += countOpenReservations(&c.AdmissionHistory)
	}
	return available, reserved
}

func reservationHashes(h *v1alpha1.AdmissionHistory) map[quota.UIDHash]bool {
	hashes := map[quota.UIDHash]bool{}
	for r := range quota.Reservations(h) {
		hashes[r.Hash] = true
	}
	return hashes
}

// newDecision records the state that a reservation is decided on now.
func (j *judge) newDecision(w *watchedProtector) decision {
	d := decision{
		at: time.Now(), version: parseVersion(w.stored.ResourceVersion), countedSpec: quota.CountedSpec(&w.stored.Spec), snapshots: map[string]observedVersion{},
		floor: w.effectiveFloor(), position: len(w.decidedFloors),
	}
	w.decidedFloors = append(w.decidedFloors, d.floor)
	for i := range w.stored.Status.Cells {
		c := &w.stored.Status.Cells[i]
		d.snapshots[c.CellID] = observedVersion{j.earliestRestores(w.core, c.CellID, c.Aggregation.Epoch), parseVersion(c.Aggregation.SnapshotVersion)}
	}
	d.firstCharge = charge{d.at, d.version, d.floor, d.position, d.snapshots}
	return d
}

// judgeAdmission judges the limit and the writer of a new reservation.
func (j *judge) judgeAdmission(w *watchedProtector, e *apiserver.Event, forced bool) {
	_, reserved := w.storedTotals()
	if limit := int(w.stored.Spec.AdmissionHistory.MaxConcurrentLag); limit > 0 && reserved > limit && !forced {
		j.fail("protector %s holds %d reservations, limit %d", w.name(), reserved, limit)
	}
	if !strings.HasPrefix(e.By, "webhook") {
		j.fail("%s made a reservation", writerOrSimulator(e.By))
	}
}

// judgeDrop allows the drop of a reservation only when its pod is accounted for, or no client may act on it any more.
func (j *judge) judgeDrop(w *watchedProtector, cell *v1alpha1.PodProtectorCell, hash quota.UIDHash, e *apiserver.Event) {
	t := j.cells[cell.CellID]
	line := t.byHash[hash]
	if line == nil {
		if t.restores == 0 {
			j.fail("%s dropped a reservation from protector %s for a pod that %s never had", writerOrSimulator(e.By), w.name(), cell.CellID)
		}
		return // a restore has undone the pod
	}
	if j.isAccountedFor(w, cell, line, false) {
		return
	}
	if j.isAccountedFor(w, cell, line, strings.HasPrefix(e.By, "aggregator")) {
		if len(j.openRemovals[openKey{cell.CellID, line.uid}]) > 0 {
			j.countExcuse(excuseNewerList)
		}
		delete(w.removedPods, hash) // a list has shown that the pod does not exist: no later count includes it
		return
	}
	if w.removedPods[hash] && w.lastRestore.IsZero() && t.restores == 0 && line.current().isGoneOrTerminating() {
		j.fail("%s dropped the reservation of pod %s from protector %s, which is removed and still counted", writerOrSimulator(e.By), line.name, w.name())
	}
	isForgotten := false
	for r, requestedAt := range j.openRemovals[openKey{cell.CellID, line.uid}] {
		switch {
		case w.isLostInRestore(hash, requestedAt):
			j.countExcuse(excuseRestoreLostDrop)
			isForgotten = true
		case r.reviewed == nil || !w.isChargedFor(r, r.reviewed) || r.isMoot(line) || !j.wasCharged(w, r, line.states): // it consumed nothing
		case w.isUnchargedByEarlierSpec(r, line.current(), time.Now()): // an earlier spec admitted it without a charge
		case w.isDecidedAtZeroFloor(requestedAt):
			j.countExcuse(excuseZeroFloorDrop)
		case w.isOverdue(hash, r):
			j.countExcuse(excuseOverdueDrop)
			w.overduePods[hash] = true
		case j.isPendingForcedReservation(cell.CellID, line, r.overriddenDenial) && w.hasExpired(hash): // it is not the removal that the reservation was made for
			j.countExcuse(excuseForcedDrop)
		default:
			j.fail("%s dropped the reservation of pod %s from protector %s, and removal %s of it was admitted and may still take effect",
				writerOrSimulator(e.By), line.name, w.name(), r.id)
		}
	}
	if isForgotten {
		return // a restored core had only part of the reservation: an effect is judged by its own decision
	}
	delete(w.removedPods, hash)
	delete(w.decisions, hash) // a client that removes the pod now does not use this reservation
}

// isAccountedFor reports whether the counts of a cell leave a pod out as gone or terminating, so that it needs no reservation. After a
// restore the counts may be from before it. Only an aggregator has lists besides its snapshot.
func (j *judge) isAccountedFor(w *watchedProtector, cell *v1alpha1.PodProtectorCell, line *podHistory, listed bool) bool {
	t := j.cells[cell.CellID]
	for era := j.earliestRestores(w.core, cell.CellID, cell.Aggregation.Epoch); era <= t.restores; era++ {
		then := t.podsOf(era)[line.uid]
		if listed && (then == nil || then.current().isDeleted) {
			return true
		}
		if then == nil {
			continue
		}
		if state, ok := then.at(parseVersion(cell.Aggregation.SnapshotVersion)); ok && state.isGoneOrTerminating() {
			return true
		}
	}
	return false
}

// judgeSummary compares the informational fields with the cells.
func (j *judge) judgeSummary(w *watchedProtector) {
	s := &w.stored.Status
	if len(s.Cells) == 0 || s.ObservedGeneration != w.stored.Generation {
		return
	}
	available, reserved := w.storedTotals()
	if int(s.Summary.Available) != available || int(s.Summary.Reserved) != reserved || w.isFloorWrong() {
		j.fail("the summary of protector %s is %+v with a floor of %d, but its cells record %d available and %d reserved",
			w.name(), s.Summary, s.DesiredAvailable, available, reserved)
	}
}

package simulation

import (
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// judgeStatus judges a write of a protector: nothing may be lost, and the counts must be true.
func (j *judge) judgeStatus(w *watched, old *v1alpha1.PodProtector, e *apiserver.Event) {
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
func (j *judge) judgeCounts(w *watched, cell, before *v1alpha1.PodProtectorCell) {
	a, b := &cell.Aggregation, &before.Aggregation
	if a.Epoch == b.Epoch && a.Epoch > 0 && a.Holder != b.Holder && w.restored.IsZero() {
		j.fail("%s and %s have both written cell %s of protector %s with epoch %d", b.Holder, a.Holder, cell.CellID, w.name(), a.Epoch)
	}
	if a.Epoch == b.Epoch && a.SnapshotVersion == b.SnapshotVersion && a.CountedReplicas == b.CountedReplicas &&
		a.Void == b.Void && a.CountedSpec == b.CountedSpec {
		return
	}
	version := parseVersion(a.SnapshotVersion)
	// A restored core issues an epoch twice.
	sameLeader := a.Epoch == b.Epoch && (a.Holder == b.Holder || w.restored.IsZero())
	if a.Epoch < b.Epoch || sameLeader && version < parseVersion(b.SnapshotVersion) {
		j.fail("cell %s of protector %s went back from epoch %d version %s to epoch %d version %s",
			cell.CellID, w.name(), b.Epoch, b.SnapshotVersion, a.Epoch, a.SnapshotVersion)
	}
	if earlier := parseVersion(b.SnapshotVersion); !sameLeader && version < earlier && j.cells[cell.CellID].era == 0 {
		j.fail("epoch %d of cell %s begins with version %d in protector %s, which epoch %d had counted at %d",
			a.Epoch, cell.CellID, version, w.name(), b.Epoch, earlier)
	}
	if a.Void || a.CountedSpec != quota.CountedSpec(&w.stored.Spec) {
		return
	}
	// After a restore, a snapshot may still be from before it, or leave out pods that had been seen to be gone then.
	t, then, goneSince, aged := j.cells[cell.CellID], 0, 0, 0
	first := j.eraOf(w.core, cell.CellID, a.Epoch)
	for era := first; era <= t.era; era++ {
		then, goneSince, aged = t.availableAt(w, first, era, version, parseVersion(a.SettledVersion), a.LastEventTime.Time, j.lenience)
		if got := int(a.CountedReplicas); got <= then && (got >= then-goneSince-aged || a.InTransition && w.mayBeInTransition()) {
			j.excuseCounts(era < t.era, got < then, got < then-goneSince && aged > 0)
			return
		}
	}
	got := int(a.CountedReplicas)
	j.fail("cell %s of protector %s says that %d pods were available at version %d; it was %d, of which %d are gone and %d may not have been seen",
		cell.CellID, w.name(), got, version, then, goneSince, aged)
}

// judgeReservations judges which reservations a write adds and drops.
func (j *judge) judgeReservations(w *watched, cell, before *v1alpha1.PodProtectorCell, e *apiserver.Event) {
	was, is := stampsOf(&before.AdmissionHistory), map[quota.UIDHash]bool{}
	total := 0
	for r := range quota.Reservations(&cell.AdmissionHistory) {
		total++
		if is[r.Hash] {
			j.fail("protector %s holds two reservations for one pod of %s", w.name(), cell.CellID)
		}
		is[r.Hash] = true
	}
	if open, holds := quota.Open(&cell.AdmissionHistory), total-len(accounted(&cell.AdmissionHistory)); open != holds {
		j.fail("the counters of protector %s say %d reservations of %s, and it holds %d", w.name(), open, cell.CellID, holds)
	}
	j.judgeAccounted(w, cell)
	fresh, forced := false, j.forcedBy(e)
	wasAccounted := accounted(&before.AdmissionHistory)
	for hash, stamp := range stampsOf(&cell.AdmissionHistory) {
		earlier, held := was[hash]
		if !held {
			fresh = true
			// After a restore the pod may be unknown to the judge.
			line, was := j.cells[cell.CellID].byHash[hash], j.cells[cell.CellID].era > 0
			if line == nil && !was || line != nil && !j.asked[openKey{cell.CellID, line.uid}] {
				j.fail("%s reserved a removal with protector %s that no client has asked for", e.By, w.name())
			}
		}
		// A repeated removal is decided again. Merged reservations do not show repetitions.
		if !held || !stamp.IsZero() && !earlier.IsZero() && !stamp.Equal(earlier) {
			made := j.decide(w)
			if earlier, known := w.decisions[hash]; known && held && !wasAccounted[hash] {
				made.charged = earlier.charged
			}
			w.decisions[hash] = made
			if by, _, _ := strings.Cut(e.By, "@"); j.isBlind(w, j.beginOf[by]) {
				made := w.decisions[hash]
				made.blind = true
				w.decisions[hash] = made
			}
			available, reserved := w.books()
			available += w.discounted(cell) // its own pods count for a removal in it
			floor, known := writtenFloor(w.stored)
			switch left := available - reserved - floor; {
			case (left < 0 || !known || w.mindsLoss()) && j.cells[cell.CellID].isForced(hash):
				w.overdraw(hash)
			case left < -forced && floor > 0:
				j.fail("%s admitted a removal with protector %s that leaves %d pods too few", e.By, w.name(), -left)
			}
		}
	}
	if fresh {
		j.judgeAdmission(w, e, forced > 0)
	}
	if fresh && forced == 0 {
		j.judgeBooksOfLoss(w, cell.CellID, e)
	}
	for hash := range was {
		if !is[hash] {
			j.judgeDrop(w, cell, hash, e)
		}
	}
}

// stampsOf returns the reservations with their stamps. Merged ones have a zero stamp.
func stampsOf(h *v1alpha1.AdmissionHistory) map[quota.UIDHash]time.Time {
	stamps := map[quota.UIDHash]time.Time{}
	for r := range quota.Reservations(h) {
		stamps[r.Hash] = time.Time{}
		if r.PodName != "" {
			stamps[r.Hash] = r.Stamp
		}
	}
	return stamps
}

// books sums the cells of the stored status: the pods that may count as available in cells that are not discounted, and the reservations.
func (w *watched) books() (available, reserved int) {
	for i := range w.stored.Status.Cells {
		c := &w.stored.Status.Cells[i]
		if c.Aggregation.CountedSpec == quota.CountedSpec(&w.stored.Spec) {
			available += int(c.Aggregation.CountedReplicas) - w.discounted(c)
		}
		reserved += openOf(&c.AdmissionHistory)
	}
	return available, reserved
}

func hashesOf(h *v1alpha1.AdmissionHistory) map[quota.UIDHash]bool {
	hashes := map[quota.UIDHash]bool{}
	for r := range quota.Reservations(h) {
		hashes[r.Hash] = true
	}
	return hashes
}

// decide records the state that a reservation is decided on now.
func (j *judge) decide(w *watched) decision {
	d := decision{
		at: time.Now(), version: parseVersion(w.stored.ResourceVersion), countedSpec: quota.CountedSpec(&w.stored.Spec), seen: map[string]sighting{},
		floor: w.floorNow(), nth: len(w.decided),
	}
	w.decided = append(w.decided, d.floor)
	for i := range w.stored.Status.Cells {
		c := &w.stored.Status.Cells[i]
		d.seen[c.CellID] = sighting{j.eraOf(w.core, c.CellID, c.Aggregation.Epoch), parseVersion(c.Aggregation.SnapshotVersion)}
	}
	d.charged = charged{d.at, d.version, d.floor, d.nth, d.seen}
	return d
}

// judgeAdmission judges the limit and the writer of a new reservation.
func (j *judge) judgeAdmission(w *watched, e *apiserver.Event, forced bool) {
	_, reserved := w.books()
	if limit := int(w.stored.Spec.AdmissionHistory.MaxConcurrentLag); limit > 0 && reserved > limit && !forced {
		j.fail("protector %s holds %d reservations, and its limit is %d", w.name(), reserved, limit)
	}
	if !strings.HasPrefix(e.By, "webhook") {
		j.fail("%s made a reservation", orWorld(e.By))
	}
}

// judgeDrop allows the drop of a reservation only when its pod is accounted for, or no client may act on it any more.
func (j *judge) judgeDrop(w *watched, cell *v1alpha1.PodProtectorCell, hash quota.UIDHash, e *apiserver.Event) {
	t := j.cells[cell.CellID]
	line := t.byHash[hash]
	if line == nil {
		if t.era == 0 {
			j.fail("%s dropped a reservation from protector %s for a pod that %s never had", orWorld(e.By), w.name(), cell.CellID)
		}
		return // a restore has undone the pod
	}
	if j.isCountedGone(w, cell, line, false) {
		return
	}
	if j.isCountedGone(w, cell, line, strings.HasPrefix(e.By, "aggregator")) {
		if len(j.open[openKey{cell.CellID, line.uid}]) > 0 {
			j.excuse(excuseListed)
		}
		delete(w.effected, hash) // a list has shown that the pod does not exist: no later count includes it
		return
	}
	if w.effected[hash] && w.restored.IsZero() && t.era == 0 && line.now().over() {
		j.fail("%s dropped the reservation of pod %s from protector %s, which is removed and still counted", orWorld(e.By), line.name, w.name())
	}
	isForgotten := false
	for r, asked := range j.open[openKey{cell.CellID, line.uid}] {
		switch {
		case w.excuses(hash, asked):
			j.excuse(excuseForgottenDrop)
			isForgotten = true
		case r.reviewed == nil || !w.isCharged(r, r.reviewed) || r.isMoot(line) || !j.wasCharged(w, r, line.states): // it consumed nothing
		case w.isUncharged(r, line.now(), time.Now()): // an earlier spec admitted it without a charge
		case w.waived(asked):
			j.excuse(excuseWaivedDrop)
		case w.isOverdue(hash, r):
			j.excuse(excuseOverdueDrop)
			w.overdue[hash] = true
		case j.isOwed(cell.CellID, line, r.overrode) && w.hasExpired(hash): // it is not the removal that the reservation was made for
			j.excuse(excuseOwedDrop)
		default:
			j.fail("%s dropped the reservation of pod %s from protector %s, and removal %s of it was admitted and may still take effect",
				orWorld(e.By), line.name, w.name(), r.id)
		}
	}
	if isForgotten {
		return // a restored core had only part of the reservation: an effect is judged by its own decision
	}
	delete(w.effected, hash)
	delete(w.decisions, hash) // a client that removes the pod now does not use this reservation
}

// isCountedGone reports whether the counts of a cell leave a pod out as gone or terminating, so that it needs no reservation. After a
// restore the counts may be from before it. Only an aggregator has lists besides its snapshot.
func (j *judge) isCountedGone(w *watched, cell *v1alpha1.PodProtectorCell, line *lifeline, listed bool) bool {
	t := j.cells[cell.CellID]
	for era := j.eraOf(w.core, cell.CellID, cell.Aggregation.Epoch); era <= t.era; era++ {
		then := t.podsOf(era)[line.uid]
		if listed && (then == nil || then.now().gone) {
			return true
		}
		if then == nil {
			continue
		}
		if state, ok := then.at(parseVersion(cell.Aggregation.SnapshotVersion)); ok && state.over() {
			return true
		}
	}
	return false
}

// judgeSummary compares the informational fields with the cells.
func (j *judge) judgeSummary(w *watched) {
	s := &w.stored.Status
	if len(s.Cells) == 0 || s.ObservedGeneration != w.stored.Generation {
		return
	}
	available, reserved := w.books()
	if int(s.Summary.Available) != available || int(s.Summary.Reserved) != reserved || w.isFloorWrong() {
		j.fail("the summary of protector %s says %+v with a floor of %d; its cells say %d available and %d reserved",
			w.name(), s.Summary, s.DesiredAvailable, available, reserved)
	}
}

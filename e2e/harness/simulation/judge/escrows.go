package judge

import (
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// escrowLifetime is how long after its last write an escrow may admit a removal.
const escrowLifetime = time.Second

// escrowHistory is what replicas of the webhook may have admitted by the escrows of a protector, without having named it.
type escrowHistory struct {
	held map[escrowKey]heldEscrow
	// admitted are the pods whose removal was admitted by an escrow and is not named yet.
	admitted map[quota.UIDHash]escrowKey
}

// escrowKey identifies an escrow of a protector.
type escrowKey struct{ cell, holder string }

// heldEscrow is an escrow as it is stored, and the state that it was decided on.
type heldEscrow struct {
	count    int
	storedAt time.Time
	decided  decision
}

func newEscrowHistory() escrowHistory {
	return escrowHistory{held: map[escrowKey]heldEscrow{}, admitted: map[quota.UIDHash]escrowKey{}}
}

// countEscrowed returns the number of reservations in the escrows of a history. This is an independent implementation, not the code under test.
func countEscrowed(h *v1alpha1.AdmissionHistory) (n int) {
	for _, e := range h.Escrows {
		n += int(e.Count)
	}
	return n
}

// countAdmitted returns how many unnamed removals an escrow has admitted.
func (h *escrowHistory) countAdmitted(key escrowKey) (n int) {
	for _, by := range h.admitted {
		if by == key {
			n++
		}
	}
	return n
}

// admit records that a removal was admitted by an escrow of its cell, and by which decision. ok is false if none had room for it when the removal was reviewed.
func (w *watchedProtector) admitByEscrow(cell string, hash quota.UIDHash, r *Removal) (ok bool) {
	for key, e := range w.escrows.held {
		if key.cell != cell || w.escrows.countAdmitted(key) >= e.count || r.latestReview.at.After(e.storedAt.Add(escrowLifetime)) {
			continue
		}
		w.escrows.admitted[hash] = key
		w.reservations.decisions[hash] = e.decided
		return true
	}
	return false
}

// hadEscrow reports whether the writer of a change had an escrow of a cell before, so that the change may name what it has admitted.
func hadEscrow(before *v1alpha1.PodProtectorCell, e *apiserver.Event) bool {
	by, _ := writingProcess(e)
	for _, escrow := range before.AdmissionHistory.Escrows {
		if strings.HasSuffix(escrow.Holder, "@"+by) {
			return true
		}
	}
	return false
}

// decisionOfEscrow returns the decision by which a removal was admitted that a write names: the removal itself, or an earlier state of the writer's escrow.
func (w *watchedProtector) decisionOfEscrow(cell string, hash quota.UIDHash, e *apiserver.Event) (decided decision, ok bool) {
	if _, admitted := w.escrows.admitted[hash]; admitted {
		return w.reservations.decisions[hash], true
	}
	by, _ := writingProcess(e)
	for key, held := range w.escrows.held {
		if key.cell == cell && strings.HasSuffix(key.holder, "@"+by) {
			return held.decided, true
		}
	}
	return decision{}, false
}

// judgeEscrows judges which escrows a write changes, after its reservations were judged.
func (j *reservationJudge) judgeEscrows(w *watchedProtector, cell, before *v1alpha1.PodProtectorCell, e *apiserver.Event) {
	stamps := map[string]int64{}
	for _, escrow := range before.AdmissionHistory.Escrows {
		stamps[escrow.Holder] = escrow.Stamp
	}
	for hash := range reservationHashes(&cell.AdmissionHistory) {
		delete(w.escrows.admitted, hash)
	}
	there := map[escrowKey]bool{}
	for _, escrow := range cell.AdmissionHistory.Escrows {
		key := escrowKey{cell.CellID, escrow.Holder}
		there[key] = true
		if stamps[escrow.Holder] != escrow.Stamp {
			w.escrows.held[key] = heldEscrow{int(escrow.Count), time.Now(), j.history.newDecision(w)}
			j.judgeEscrow(w, cell, before, e)
		}
		if admitted := w.escrows.countAdmitted(key); admitted > int(escrow.Count) {
			j.report.fail("%s leaves %d reservations in the escrow of %s of protector %s, which has admitted %d removals without naming them",
				e.By, escrow.Count, escrow.Holder, w.name(), admitted)
		}
	}
	for key := range w.escrows.held {
		if key.cell != cell.CellID || there[key] {
			continue
		}
		if strings.HasPrefix(e.By, "aggregator") {
			j.judgeEndOfEscrow(w, cell, key, e)
		} else if admitted := w.escrows.countAdmitted(key); admitted > 0 && stamps[key.holder] > 0 {
			j.report.fail("%s dropped the escrow of %s of protector %s, which has admitted %d removals without naming them", e.By, key.holder, w.name(), admitted)
		}
		delete(w.escrows.held, key)
	}
}

// judgeEscrow judges whether a write that changes an escrow reserves only what the budget allows.
func (j *reservationJudge) judgeEscrow(w *watchedProtector, cell, before *v1alpha1.PodProtectorCell, e *apiserver.Event) {
	if !strings.HasPrefix(e.By, "webhook") {
		j.report.fail("%s made an escrow of protector %s", writerOrSimulator(e.By), w.name())
	}
	available, reserved := w.storedTotals()
	available += w.discounted(cell)
	floor, _ := writtenFloor(w.stored)
	isMore := reserved-j.countGone(cell, before) > reservedIn(e.Old)
	if left := available - reserved - floor; left < 0 && isMore && floor > 0 && j.history.countForcedReservations(e) == 0 {
		j.report.fail("%s reserved in advance with protector %s what leaves %d pods too few", e.By, w.name(), -left)
	}
}

// judgeEndOfEscrow judges the end of an escrow whose holder has stopped: nothing that it admitted may take effect any more, and the counts must account for
// what has.
func (j *reservationJudge) judgeEndOfEscrow(w *watchedProtector, cell *v1alpha1.PodProtectorCell, key escrowKey, e *apiserver.Event) {
	for hash, by := range w.escrows.admitted {
		line := j.history.cells[cell.CellID].byHash[hash]
		if by != key || line == nil {
			continue
		}
		delete(w.escrows.admitted, hash)
		if j.history.isAccountedFor(w, cell, line, true) {
			continue
		}
		for r := range j.openRemovals[openKey{cell.CellID, line.uid}] {
			if !r.isMoot(line) && !w.isLostInRestore(hash, r.RequestedAt) {
				j.report.fail("%s ended the escrow of %s of protector %s, and removal %s of %s was admitted by it and may still take effect",
					writerOrSimulator(e.By), key.holder, w.name(), r.ID, line.name)
			}
		}
		if line.current().isGoneOrTerminating() && w.lastRestore.IsZero() && j.history.cells[cell.CellID].restores == 0 {
			j.report.fail("%s ended the escrow of %s of protector %s, and pod %s, which it has removed, is still counted",
				writerOrSimulator(e.By), key.holder, w.name(), line.name)
		}
		delete(w.reservations.decisions, hash)
	}
}

package judge

import (
	"maps"
	"slices"
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
	// lost are the escrows that the last restore of the core has lost. Their holders use them for the rest of their time: the API servers of the core do
	// not run again earlier. afterRestore are the pods whose removal they have admitted since.
	lost         map[escrowKey]heldEscrow
	afterRestore map[quota.UIDHash]bool
	// ever are the pods whose removal any escrow has ever admitted, and holders the replicas that ever had one. A write names a pod again if the replica
	// did not hear of the first, also one whose client did not hear of its admission.
	ever    map[quota.UIDHash]bool
	holders map[string]bool
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
	return escrowHistory{
		held: map[escrowKey]heldEscrow{}, admitted: map[quota.UIDHash]escrowKey{},
		afterRestore: map[quota.UIDHash]bool{}, ever: map[quota.UIDHash]bool{}, holders: map[string]bool{},
	}
}

// recordRestore records that a restore of the core loses all escrows. Those that it brings back have no holder who uses them.
func (h *escrowHistory) recordRestore() {
	h.lost, h.held, h.admitted = h.held, map[escrowKey]heldEscrow{}, map[quota.UIDHash]escrowKey{}
}

// countEscrowed returns the number of reservations in the escrows of a history. This is an independent implementation, not the code under test.
func countEscrowed(h *v1alpha1.AdmissionHistory) (n int) {
	for _, e := range h.Escrows {
		n += int(e.Count)
	}
	return n
}

// countAdmitted returns how many unnamed removals the escrows of a cell have admitted, and how many they have room for. A replica that answers may have
// asked another one, so that the escrow itself is not known.
func (h *escrowHistory) countAdmitted(cell string) (admitted, room int) {
	for _, by := range h.admitted {
		if by.cell == cell {
			admitted++
		}
	}
	for key, e := range h.held {
		if key.cell == cell {
			room += e.count
		}
	}
	return admitted, room
}

// replica returns the name of the replica that holds an escrow.
func (k escrowKey) replica() string {
	_, name, _ := strings.Cut(k.holder, "@")
	return name
}

// admitByEscrow records that a removal was admitted by an escrow of its cell, if possible by that of the replica that answered, and by which decision. ok is
// false if none had room for it when the removal was reviewed.
func (w *watchedProtector) admitByEscrow(cell string, hash quota.UIDHash, r *Removal) (ok bool) {
	if _, repeated := w.escrows.admitted[hash]; repeated {
		return true
	}
	keys := slices.SortedFunc(maps.Keys(w.escrows.held), func(a, b escrowKey) int {
		if isA, isB := a.replica() == r.Webhook, b.replica() == r.Webhook; isA != isB {
			return map[bool]int{true: -1, false: 1}[isA]
		}
		return strings.Compare(a.replica(), b.replica())
	})
	for _, key := range keys {
		e := w.escrows.held[key]
		if admitted, room := w.escrows.countAdmitted(cell); key.cell != cell || admitted >= room || r.latestReview.at.After(e.storedAt.Add(escrowLifetime)) {
			continue
		}
		w.escrows.admitted[hash], w.escrows.ever[hash] = key, true
		w.reservations.decisions[hash] = e.decided
		return true
	}
	for key, e := range w.escrows.lost {
		if key.cell == cell && !r.latestReview.at.After(e.storedAt.Add(escrowLifetime)) {
			w.lostReservations[hash], w.escrows.afterRestore[hash], w.escrows.ever[hash] = true, true, true
			w.reservations.decisions[hash] = e.decided
			return true
		}
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
		there[key], w.escrows.holders[key.replica()] = true, true
		if stamps[escrow.Holder] != escrow.Stamp {
			w.escrows.held[key] = heldEscrow{int(escrow.Count), time.Now(), j.history.newDecision(w)}
			j.judgeEscrow(w, cell, before, e)
		}
	}
	for key := range w.escrows.held {
		if key.cell == cell.CellID && !there[key] {
			delete(w.escrows.held, key)
			if strings.HasPrefix(e.By, "aggregator") {
				j.judgeEndOfEscrow(w, cell, key, e)
			}
		}
	}
	if admitted, room := w.escrows.countAdmitted(cell.CellID); admitted > room {
		j.report.fail("%s leaves %d reservations in advance in %s of protector %s, which have admitted %d removals that are not named",
			e.By, room, cell.CellID, w.name(), admitted)
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
	isMore := reserved-j.countNamed(w, cell, before) > reservedIn(e.Old)
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
		if admitted, room := w.escrows.countAdmitted(cell.CellID); admitted <= room {
			return // another replica admitted it
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

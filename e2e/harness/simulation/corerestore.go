package simulation

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// A restored core has lost all later reservations. A webhook that watched the core detects the restore. It admits nothing until all
// removals that were admitted before have ended and are counted, so decisions of the lost history are judged like all others. The judge
// excuses only a webhook that started after the restore and decides by counts from before it, since it cannot detect the restore.

// recordLostDecisions records what a core is about to lose: all decisions after a version. shown is the version up to which each process has
// received its protectors.
func (j *judge) recordLostDecisions(core string, version uint64, shown map[string]uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.report.trace.add("%s: will be restored to version %d", core, version)
	for _, key := range j.history.sortedProtectors() {
		if w := j.history.protectors[key]; w.core == core {
			w.lastRestore = time.Now()
			w.recordUnseenBy(shown)
			for hash := range w.reservations.decisions {
				w.lostReservations[hash] = true
			}
		}
	}
}

// recordCoreRestore records the state that a core has been restored to, from the version to. The core continues with version.
func (j *judge) recordCoreRestore(restored *clusterView, to, version uint64) {
	core, protectors := restored.name, restored.protectors()
	j.mu.Lock()
	defer j.mu.Unlock()
	for key, source := range j.lifecycles.sources {
		if key.core == core {
			source.restore(to)
		}
	}
	j.decreases.recordCoreRestore(restored, to, version)
	there := map[protectorKey]bool{}
	for _, p := range protectors {
		key := protectorKey{core, client.ObjectKeyFromObject(p)}
		there[key] = true
		w := j.history.protectors[key]
		if w == nil || w.stored.UID != p.UID {
			w = j.history.newWatched(core)
			w.lastRestore = time.Now()
			w.coverage.hadChanged = j.history.changedCoverages[incarnation{core, p.UID}]
			j.history.protectors[key] = w
			j.history.recordUncountedLosses(w)
		}
		j.report.trace.add("%s: protector %s is again: %s", core, p.Name, describeStatus(p))
		w.restoredVersion = version
		w.setStored(p, w.stored, version)
		w.recordCountedCells(version)
		w.lostAt = time.Time{}
		j.history.recordRestoredDecisions(w)
	}
	for _, key := range j.history.sortedProtectors() {
		switch w := j.history.protectors[key]; {
		case key.core != core || there[key] || w.isLost():
		case isHeld(w.stored):
			j.report.trace.add("%s vanished", w.name())
			w.lostAt, w.lostVersion, w.recreatedVersion = time.Now(), version, 0
		default:
			delete(j.history.protectors, key)
		}
	}
}

// recordUnseenBy records which processes will not see the protector because of a restore: it may be gone before their watches have shown it.
func (w *watchedProtector) recordUnseenBy(shown map[string]uint64) {
	w.unseenBy = map[string]bool{}
	for process, version := range shown {
		if version < w.coveredSince {
			w.unseenBy[process] = true
		}
	}
}

// recordUncountedLosses records that a protector which a restore brought back does not account for the pods that were removed while it did not exist.
func (h *clusterHistory) recordUncountedLosses(w *watchedProtector) {
	for _, t := range h.cells {
		for _, line := range t.pods {
			if before, went := line.lastEnding(); went {
				t.losses = append(t.losses, loss{excuse: lossWhileProtectorMissing, restores: t.restores, version: before.next, before: before.podState,
					after: podState{isDeleted: true}, protector: w})
			}
		}
	}
}

// recordRestoredDecisions records that reservations which a restored core still has are decided on its restored counts, if their decisions are lost.
func (h *clusterHistory) recordRestoredDecisions(w *watchedProtector) {
	for i := range w.stored.Status.Cells {
		for hash := range reservationHashes(&w.stored.Status.Cells[i].AdmissionHistory) {
			if _, known := w.reservations.decisions[hash]; !known {
				decided := h.newDecision(w)
				decided.isRestored = true
				w.reservations.decisions[hash] = decided
			}
		}
	}
}

// isLostInRestore reports whether the reservation of a removal that was requested at a time may be missing because the core was restored.
func (w *watchedProtector) isLostInRestore(hash quota.UIDHash, requestedAt time.Time) bool {
	return w.lostReservations[hash] && !requestedAt.After(w.lastRestore)
}

// podEnding is the last state of a pod before its end, and the version and the time of its end.
type podEnding struct {
	podState
	next uint64
	when time.Time
}

// lastEnding returns how a pod ended, if it did.
func (l *podHistory) lastEnding() (last podEnding, hasEnded bool) {
	for i, state := range l.states[1:] {
		if state.isGoneOrTerminating() && !l.states[i].isGoneOrTerminating() {
			return podEnding{l.states[i], state.version, state.at}, true
		}
	}
	return podEnding{}, false
}

// isRestoreUndetectable reports whether a webhook decides by counts of a lost history, and cannot detect it since it started after the restore.
func (h *clusterHistory) isRestoreUndetectable(w *watchedProtector, began time.Time) bool {
	if w.restoredVersion == 0 || !began.After(w.lastRestore) {
		return false
	}
	for i := range w.stored.Status.Cells {
		if a := &w.stored.Status.Cells[i].Aggregation; !a.Void && parseVersion(a.TermVersion) < w.restoredVersion {
			return true
		}
	}
	return false
}

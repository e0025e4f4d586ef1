package judge

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// CoreVersionBump is the increase of the versions after a core was restored, as etcd advises.
const CoreVersionBump = 1_000_000_000

// A restored core has lost all later reservations. A webhook that watched the core detects the restore. It admits nothing until all
// removals that were admitted before have ended and are counted, so decisions of the lost history are judged like all others. The judge
// excuses only a webhook that started after the restore and decides by counts from before it, since it cannot detect the restore.

// RecordLostDecisions records what a core is about to lose: all decisions after a version. shown is the version up to which each process has
// received its protectors.
func (j *Judge) RecordLostDecisions(core string, version uint64, shown map[string]uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.report.trace.Add("%s: will be restored to version %d", core, version)
	for _, key := range j.history.sortedProtectors() {
		if w := j.history.protectors[key]; w.core == core {
			w.lastRestore = time.Now()
			w.recordUnseenBy(shown)
			for hash := range w.reservations.decisions {
				w.lostReservations[hash] = true
			}
			w.escrows.recordRestore()
		}
	}
}

// RecordCoreRestore records the state that a core has been restored to, from the version to. The core continues with version.
func (j *Judge) RecordCoreRestore(restored *Cluster, to, version uint64) {
	core, protectors := restored.Name, restored.Protectors()
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
		j.report.trace.Add("%s: protector %s is again: %s", core, p.Name, describeStatus(p))
		w.restoredVersion = version
		w.setStored(p, w.stored, version)
		w.recordCountedCells(version)
		if w.isLost() {
			w.recreatedVersion = version // a webhook that started while it was lost hears of it when it lists the restored core
		} else {
			w.lostAt = time.Time{}
		}
		j.history.recordRestoredDecisions(w)
	}
	for _, key := range j.history.sortedProtectors() {
		switch w := j.history.protectors[key]; {
		case key.core != core || there[key] || w.isLost():
		case isHeld(w.stored):
			j.report.trace.Add("%s vanished", w.name())
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
	return w.lostReservations[hash] && (!requestedAt.After(w.lastRestore) || w.escrows.afterRestore[hash])
}

// decisionOn returns the decision on the reservation of a pod by which a removal of it was admitted.
func (w *watchedProtector) decisionOn(r *Removal, pod types.UID) (d decision, reserved bool) {
	d, reserved = w.reservations.decisions[quota.HashUID(pod)]
	if d.lost != nil && r.latestReview != nil && !r.latestReview.at.After(w.lastRestore) {
		d = *d.lost
	}
	return d, reserved
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

// recordCoreRestore removes the history that a restored core has lost since a version. The core continues with next.
func (d *decreaseJudge) recordCoreRestore(core *Cluster, version, next uint64) {
	d.floors.recordRestore(core.Name, version)
	d.grants.recordRestore(core.Name, version, next)
	d.policies.restore(core.Name, version)
	d.evidence.recordRestoredObjects(core)
}

func (h *floorHistories) recordRestore(core string, version uint64) {
	for key, truth := range h.protectors {
		if key.core == core {
			for _, p := range truth.pendings {
				if p.version > version {
					truth.lost = append(truth.lost, p.value)
				}
			}
			truth.floors, truth.pendings = valuesUntil(truth.floors, version), valuesUntil(truth.pendings, version)
		}
	}
}

func (j *grantJudge) recordRestore(core string, version, next uint64) {
	truth := j.historyOf(core)
	for _, g := range truth.grants {
		if g.version > version {
			truth.lost = append(truth.lost, g)
		}
	}
	clear(truth.usedUntil) // generations begin again
	truth.grants = slices.DeleteFunc(truth.grants, func(g grant) bool { return g.version > version })
	truth.deletions = slices.DeleteFunc(truth.deletions, func(deleted uint64) bool { return deleted > version })
	truth.restored, truth.restoredAt = next, time.Now()
}

// isReleaseUndone reports whether a restore undid the record of a release when the generator was about to release the source. The generator then
// sees that the source vanished, and the protector stays in force.
func (d *decreaseJudge) isReleaseUndone(core string, p *v1alpha1.PodProtector, source sourceState) bool {
	restored := d.grants.historyOf(core).restoredAt
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
	return c != nil && c.Reason == v1alpha1.ReasonSourceVanished && source.at.After(restored) && source.at.Before(restored.Add(maxInFlightRelease))
}

// isRecreationUndone reports whether a restore undid the recreation of a deleted source. The generator then sees that the source vanished, and
// the protector stays in force.
func (d *decreaseJudge) isRecreationUndone(core string, p *v1alpha1.PodProtector, source *sourceHistory) bool {
	c, deleted := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved), source.current().at
	return c != nil && c.Reason == v1alpha1.ReasonSourceVanished && source.deletionUndone.After(deleted) && deleted.Before(d.grants.historyOf(core).restoredAt)
}

// isHeldCascade reports whether a protector may stay in force although its source was deleted: a cascade deleted it, or seemed to when a
// generator saw it.
func (d *decreaseJudge) isHeldCascade(core string, p *v1alpha1.PodProtector, source sourceState) bool {
	c := pendingOf(p)
	if c == nil || c.Reason != v1alpha1.ReasonCascade || source.object == nil {
		return false
	}
	return !source.cascade.IsZero() || d.evidence.isCascade(core, source.object)
}

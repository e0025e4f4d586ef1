package simulation

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// A restored core has lost all later reservations. A webhook that watched the core detects the restore. It admits nothing until all
// removals that were admitted before have ended and are counted, so decisions of the lost history are judged like all others. The judge
// excuses only a webhook that started after the restore and decides by counts from before it, since it cannot detect the restore.

// coreWillBeOld records what a core is about to lose: all decisions after a version. shown is the version up to which each process has
// received its protectors.
func (j *judge) coreWillBeOld(core string, version uint64, shown map[string]uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.trace.add("%s: will be restored to version %d", core, version)
	for _, key := range j.sortedProtectors() {
		if w := j.protectors[key]; w.core == core {
			w.restored = time.Now()
			w.noteShown(shown)
			for hash := range w.decisions {
				w.forgotten[hash] = true
			}
		}
	}
}

// coreIsOld records the state that a core has been restored to, from the version to. The core continues with version.
func (j *judge) coreIsOld(restored *clusterState, to, version uint64) {
	core, protectors := restored.name, restored.protectors()
	j.mu.Lock()
	defer j.mu.Unlock()
	for key, source := range j.sources {
		if key.core == core {
			source.restore(to)
		}
	}
	j.decreases.restore(restored, to, version)
	there := map[protectorKey]bool{}
	for _, p := range protectors {
		key := protectorKey{core, client.ObjectKeyFromObject(p)}
		there[key] = true
		w := j.protectors[key]
		if w == nil || w.stored.UID != p.UID {
			w = newWatched(core)
			w.restored = time.Now()
			j.protectors[key] = w
			j.mourn(w)
		}
		j.trace.add("%s: protector %s is again: %s", core, p.Name, describeStatus(p))
		w.renewed = version
		w.take(p, w.stored, version)
		w.lost = time.Time{}
		j.decideAnew(w)
	}
	for _, key := range j.sortedProtectors() {
		switch w := j.protectors[key]; {
		case key.core != core || there[key] || w.isLost():
		case isHeld(w.stored):
			j.trace.add("%s vanished", w.name())
			w.lost, w.back = time.Now(), 0
		default:
			delete(j.protectors, key)
		}
	}
}

// noteShown records which processes will not see the protector because of a restore: it may be gone before their watches have shown it.
func (w *watched) noteShown(shown map[string]uint64) {
	w.unheard = map[string]bool{}
	for process, version := range shown {
		if version < w.since {
			w.unheard[process] = true
		}
	}
}

// mourn records that a protector which a restore brought back does not account for the pods that were removed while it did not exist.
func (j *judge) mourn(w *watched) {
	for _, t := range j.cells {
		for _, line := range t.pods {
			if before, went := line.end(); went {
				t.losses = append(t.losses, loss{why: lossMourned, era: t.era, version: before.next, before: before.podState, after: podState{gone: true}, only: w})
			}
		}
	}
}

// decideAnew records that reservations which a restored core still has are decided on its restored counts, if their decisions are lost.
func (j *judge) decideAnew(w *watched) {
	for i := range w.stored.Status.Cells {
		for hash := range hashesOf(&w.stored.Status.Cells[i].AdmissionHistory) {
			if _, known := w.decisions[hash]; !known {
				made := j.decide(w)
				made.restored = true
				w.decisions[hash] = made
			}
		}
	}
}

// excuses reports whether the reservation of a removal that was requested at a time may be missing because the core was restored.
func (w *watched) excuses(hash quota.UIDHash, asked time.Time) bool {
	return w.forgotten[hash] && !asked.After(w.restored)
}

// ending is the last state of a pod before its end, and the version and the time of its end.
type ending struct {
	podState
	next uint64
	when time.Time
}

// end returns how a pod ended, if it did.
func (l *lifeline) end() (last ending, went bool) {
	for i, state := range l.states[1:] {
		if state.over() && !l.states[i].over() {
			return ending{l.states[i], state.version, state.at}, true
		}
	}
	return ending{}, false
}

// isBlind reports whether a webhook decides by counts of a lost history, and cannot detect it since it started after the restore.
func (j *judge) isBlind(w *watched, began time.Time) bool {
	if w.renewed == 0 || !began.After(w.restored) {
		return false
	}
	for i := range w.stored.Status.Cells {
		if a := &w.stored.Status.Cells[i].Aggregation; !a.Void && parseVersion(a.TermVersion) < w.renewed {
			return true
		}
	}
	return false
}

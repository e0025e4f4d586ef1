package simulation

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// A core that is restored has lost the reservations since. Whoever watched it knows that, and admits nothing until all that
// was admitted before has come to its end and is counted: what was decided in the lost past is judged as everything else. Only
// a webhook that began after the restore, and goes by counts of before it, is excused: it has nothing to know it by.

// coreWillBeOld notes what a core is about to lose: all that was decided after a version. shown is up to which version the processes know its
// protectors.
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

// coreIsOld notes the state that a core has been restored to, of a version. It continues with version.
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

// noteShown notes which processes a restore prevents from hearing of the protector: it may be gone before their watches have shown it.
func (w *watched) noteShown(shown map[string]uint64) {
	w.unheard = map[string]bool{}
	for process, version := range shown {
		if version < w.since {
			w.unheard[process] = true
		}
	}
}

// mourn notes that a protector which a restore brought back knows nothing of the pods that went while there was none.
func (j *judge) mourn(w *watched) {
	for _, t := range j.cells {
		for _, line := range t.pods {
			if before, went := line.end(); went {
				t.losses = append(t.losses, loss{why: lossMourned, era: t.era, version: before.next, before: before.podState, after: podState{gone: true}, only: w})
			}
		}
	}
}

// decideAnew notes that what a restored core still holds is decided on its restored counts, whatever else was forgotten.
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

// excuses tells whether the reservation of a removal that was asked for at a time may not be there any more, since the core was
// restored.
func (w *watched) excuses(hash quota.UIDHash, asked time.Time) bool {
	return w.forgotten[hash] && !asked.After(w.restored)
}

// ending is the last state of a pod in which it was there, and the version and the time at which it was not any more.
type ending struct {
	podState
	next uint64
	when time.Time
}

// end is how a pod went, if it did.
func (l *lifeline) end() (last ending, went bool) {
	for i, state := range l.states[1:] {
		if state.over() && !l.states[i].over() {
			return ending{l.states[i], state.version, state.at}, true
		}
	}
	return ending{}, false
}

// isBlind tells whether a webhook decides by counts of a lost past and cannot know it, since it began after that.
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

package simulation

import (
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/quota"
)

// A core that is restored has lost the reservations since. What was decided on them is excused, and nothing else: each
// such pod counts as one that went by itself, for the protectors of that core, from when it went. So no decision by
// counts that still have it is blamed, and every decision by counts that were taken after it went is judged in full.

// coreWillBeOld forgets what a core is about to lose: all that was decided after a version.
func (j *judge) coreWillBeOld(core string, version uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.trace.add("%s: will be restored to version %d", core, version)
	for _, key := range j.sortedProtectors() {
		if w := j.protectors[key]; w.core == core {
			j.forget(w, version)
		}
	}
}

func (j *judge) forget(w *watched, version uint64) {
	w.restored = time.Now()
	for _, hash := range slices.Sorted(maps.Keys(w.decisions)) {
		made := w.decisions[hash]
		for _, name := range slices.Sorted(maps.Keys(j.cells)) {
			t := j.cells[name]
			line := t.byHash[hash]
			if line == nil {
				continue
			}
			// A merged reservation that was renewed shows no decision; what is under way may be that.
			if made.version <= version && len(j.open[openKey{name, line.uid}]) == 0 {
				continue
			}
			w.forgotten[hash] = true
			delete(w.decisions, hash)
			j.trace.add("%s: the reservation of %s is forgotten", w.name(), line.name)
			if before, went := line.end(); went {
				t.losses = append(t.losses, loss{era: t.era, version: before.next, pod: before.pod, only: w})
			}
		}
	}
}

// coreIsOld notes the state that a core has been restored to.
func (j *judge) coreIsOld(core string, version uint64, protectors []*v1alpha1.PodProtector, sources []client.Object) {
	j.mu.Lock()
	defer j.mu.Unlock()
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
		w.take(p, w.stored, version)
		j.decideAnew(w)
	}
	for key := range j.protectors {
		if key.core == core && !there[key] {
			delete(j.protectors, key)
		}
	}
	if j.released[core] {
		j.unreleased[core] = time.Now()
	}
	j.released[core] = false
	for _, source := range sources {
		j.released[core] = source.GetDeletionTimestamp() != nil
	}
}

// mourn notes that a protector which a restore brought back knows nothing of the pods that went while there was none.
func (j *judge) mourn(w *watched) {
	for _, t := range j.cells {
		for _, line := range t.pods {
			if before, went := line.end(); went {
				t.losses = append(t.losses, loss{era: t.era, version: before.next, pod: before.pod, only: w})
			}
		}
	}
}

// decideAnew notes that what a restored core still holds is decided on its restored counts, whatever else was forgotten.
func (j *judge) decideAnew(w *watched) {
	for i := range w.stored.Status.Cells {
		for hash := range hashesOf(&w.stored.Status.Cells[i].AdmissionHistory) {
			if _, known := w.decisions[hash]; !known {
				w.decisions[hash] = j.decide(w)
			}
		}
	}
}

// excuses tells whether a restore has made the core forget what it knew of a removal that was asked for at a time.
func (w *watched) excuses(hash quota.UIDHash, asked time.Time) bool {
	return w.forgotten[hash] && !asked.After(w.restored)
}

// ending is the last state of a pod in which it was there, and the version at which it was not any more.
type ending struct {
	podState
	next uint64
}

// end is how a pod went, if it did.
func (l *lifeline) end() (last ending, went bool) {
	for i, state := range l.states[1:] {
		if state.over() && !l.states[i].over() {
			return ending{l.states[i], state.version}, true
		}
	}
	return ending{}, false
}

package simulation

import (
	"fmt"
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// The judge still judges by its last state a protector that vanished while a keeper holds it, until the protector is recreated. After that
// it judges what the protector admitted before. It excuses the admissions of a webhook that started while the protector did not exist.

// endProtector loses a protector, deletes it as a user, or creates all that do not exist.
func (w *world) endProtector(s Step) {
	core := w.cores[s.Core%len(w.cores)]
	if s.What == CreateProtector {
		w.createProtectors(core)
		return
	}
	p, ok := pick(core.protectors(), s.Who)
	if !ok {
		return
	}
	key := client.ObjectKeyFromObject(p)
	space, err := core.store.Get(apiserver.Namespaces, types.NamespacedName{Name: key.Namespace})
	if s.What == LoseOne && err == nil && space.GetDeletionTimestamp() != nil {
		return // no API server lets a keeper recreate it there
	}
	if s.What == LoseOne {
		core.store.Lose("podprotectors", key)
	} else if p.Labels == nil { // the generator owns a generated protector
		_, _ = core.store.Delete("podprotectors", key, "", "user")
	}
}

func (w *world) createProtectors(core *clusterState) {
	for _, plan := range w.scenario.Protectors {
		if w.cores[plan.Core%len(w.cores)] == core {
			_, _ = core.store.Create("podprotectors", plan.object(), "user")
		}
	}
}

// makeGood acts as an operator who sees that a protector vanished that no keeper remembers, because the keeper started later. A protector
// that a keeper remembers must have been recreated by now.
func (w *world) makeGood() {
	forgetful := slices.ContainsFunc(w.scenario.Steps, func(s Step) bool { return s.What == KillGenerator })
	err := w.await(convergence, w.areThere)
	ended := false
	w.judge.mu.Lock()
	for _, key := range w.judge.sortedProtectors() {
		if lost := w.judge.protectors[key]; lost.isLost() && w.isReleased(lost) {
			delete(w.judge.protectors, key)
			ended = true
		}
	}
	w.judge.mu.Unlock()
	if ended {
		time.Sleep(time.Minute + usableAfter) // until webhooks have seen the end
	}
	if err == nil {
		return
	}
	if !forgetful {
		w.judge.fail("a protector that vanished is not made anew %v", err)
	}
	for _, key := range w.judge.sortedProtectors() {
		if lost := w.judge.protectors[key]; lost.isLost() {
			w.replaceForgotten(key, lost.stored)
		}
	}
}

// replaceForgotten creates a protector that only webhooks remember. A formerly generated one is deleted when they have seen it.
func (w *world) replaceForgotten(key protectorKey, last *v1alpha1.PodProtector) {
	anew := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: key.name.Namespace, Name: key.name.Name}, Spec: last.Spec}
	for _, core := range w.cores {
		if core.name != key.core {
			continue
		}
		_, _ = core.store.Create("podprotectors", anew, "user")
		if policy.IsGenerated(last) {
			time.Sleep(5 * time.Second)
			_, _ = core.store.Delete("podprotectors", key.name, "", "user")
		}
	}
}

func (w *world) areThere() string {
	w.judge.mu.Lock()
	defer w.judge.mu.Unlock()
	for _, key := range w.judge.sortedProtectors() {
		if lost := w.judge.protectors[key]; lost.isLost() && !w.isReleased(lost) && w.mayReturn(lost) {
			return fmt.Sprintf("protector %s does not exist", w.judge.protectors[key].name())
		}
	}
	return ""
}

// keeperDelay is how long a keeper may take to recreate a protector while messages are late.
const keeperDelay = 30 * time.Second

// mayReturn reports whether a vanished protector can be recreated: some keeper has seen it, and its namespace was not deleted shortly
// after it vanished. No API server creates an object in a namespace that is being deleted.
func (w *world) mayReturn(lost *watched) bool {
	w.mu.Lock()
	heard := slices.ContainsFunc(w.generators, func(p *process) bool { return !lost.unheard[p.name] })
	w.mu.Unlock()
	for _, core := range w.cores {
		if core.name != lost.core {
			continue
		}
		space, err := core.store.Get(apiserver.Namespaces, types.NamespacedName{Name: lost.stored.Namespace})
		if err == nil && space.GetDeletionTimestamp() != nil && space.GetDeletionTimestamp().Before(&metav1.Time{Time: lost.lost.Add(keeperDelay)}) {
			return false
		}
	}
	return heard
}

// releaseNoted treats a protector as released that vanishes when its generator has just recorded in an Event that it may go. Its
// Deployment was deleted on purpose, and no component enforces the protector after the Event.
func (j *judge) releaseNoted(core string, note *eventsv1.Event) {
	for key, w := range j.protectors {
		if key.core != core || w.stored == nil || releaseNote(w) != note.Name || !j.sourceOf(key).now().released {
			continue
		}
		j.notes[core+"/"+note.Name] = true
		if w.isLost() {
			delete(j.protectors, key)
		}
	}
}

func (j *judge) isNoted(w *watched) bool { return j.notes[w.core+"/"+releaseNote(w)] }

func releaseNote(lost *watched) string { return "released-" + string(lost.stored.UID) }

// isReleased reports whether an Event records the release of a protector that vanished then.
func (w *world) isReleased(lost *watched) bool {
	for _, core := range w.cores {
		if core.name == lost.core {
			_, err := core.store.Get("events", types.NamespacedName{Namespace: lost.stored.Namespace, Name: releaseNote(lost)})
			return err == nil
		}
	}
	return false
}

func isRecreated(p *v1alpha1.PodProtector) bool {
	_, anew := p.Annotations[v1alpha1.AnnotationRestored]
	return anew
}

// isHeld reports whether a protector has a finalizer of ours. This is an independent implementation, not the code under test.
func isHeld(p *v1alpha1.PodProtector) bool {
	return p.DeletionTimestamp == nil && (slices.Contains(p.Finalizers, v1alpha1.FinalizerHold) || slices.Contains(p.Finalizers, v1alpha1.FinalizerProtector))
}

// protectorEnds judges the end of a protector, or records its loss.
func (j *judge) protectorEnds(key protectorKey, e *apiserver.Event) {
	w, last := j.protectors[key], e.Old.(*v1alpha1.PodProtector) //nolint:forcetypeassert // the store keeps its kinds apart
	if e.By == "" && w != nil && isHeld(last) && !j.isNoted(w) {
		j.trace.add("%s vanished", w.name())
		w.lost, w.back = time.Now(), 0
		return
	}
	j.judgeEnd(key.core, e)
	j.liveness.ended[key] = time.Now()
	delete(j.protectors, key)
}

// recreated judges a recreated protector. It has no status at first, and then must count nothing.
func (j *judge) recreated(w *watched, p *v1alpha1.PodProtector, e *apiserver.Event) {
	if w.isLost() {
		w.back = e.Version
		// A keeper whose watch lagged, or whose core was restored, last saw another spec.
		if quota.CountedSpec(&w.stored.Spec) != quota.CountedSpec(&p.Spec) || floorOf(w.stored) != floorOf(p) {
			w.since = e.Version
		}
	} else if w.stored == nil {
		w.since = e.Version
	}
	for i := range p.Status.Cells {
		if a := &p.Status.Cells[i].Aggregation; !a.Void || a.CountedReplicas != 0 {
			j.fail("protector %s is made anew with counts of cell %s", w.name(), p.Status.Cells[i].CellID)
		}
	}
	last := w.stored
	if last == nil {
		last = p
	}
	w.take(p, last, e.Version)
}

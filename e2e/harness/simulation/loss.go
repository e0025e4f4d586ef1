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

// applyProtectorStep loses a protector, deletes it as a user, or creates all that do not exist.
func (sim *simulator) applyProtectorStep(s Step) {
	core := sim.cores[s.Core%len(sim.cores)]
	if s.What == CreateProtector {
		sim.createProtectors(core)
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

func (sim *simulator) createProtectors(core *clusterState) {
	for _, plan := range sim.scenario.Protectors {
		if sim.cores[plan.Core%len(sim.cores)] == core {
			_, _ = core.store.Create("podprotectors", plan.object(), "user")
		}
	}
}

// recreateForgottenProtectors acts as an operator who sees that a protector vanished that no keeper remembers, because the keeper started later. A protector
// that a keeper remembers must have been recreated by now.
func (sim *simulator) recreateForgottenProtectors() {
	isKeeperRestarted := slices.ContainsFunc(sim.scenario.Steps, func(s Step) bool { return s.What == KillGenerator })
	err := sim.waitUntil(convergenceTime, sim.missingProtector)
	ended := false
	sim.judge.mu.Lock()
	for _, key := range sim.judge.history.sortedProtectors() {
		if lost := sim.judge.history.protectors[key]; lost.isLost() && sim.isReleased(lost) {
			delete(sim.judge.history.protectors, key)
			ended = true
		}
	}
	sim.judge.mu.Unlock()
	if ended {
		time.Sleep(time.Minute + maxBudgetDelay) // until webhooks have seen the end
	}
	if err == nil {
		return
	}
	if !isKeeperRestarted {
		sim.judge.fail("a vanished protector was not recreated within %v", err)
	}
	for _, key := range sim.judge.history.sortedProtectors() {
		if lost := sim.judge.history.protectors[key]; lost.isLost() {
			sim.replaceForgottenProtector(key, lost.stored)
		}
	}
}

// replaceForgottenProtector creates a protector that only webhooks remember. A formerly generated one is deleted when they have seen it.
func (sim *simulator) replaceForgottenProtector(key protectorKey, last *v1alpha1.PodProtector) {
	recreated := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: key.name.Namespace, Name: key.name.Name}, Spec: last.Spec}
	for _, core := range sim.cores {
		if core.name != key.core {
			continue
		}
		_, _ = core.store.Create("podprotectors", recreated, "user")
		if policy.IsGenerated(last) {
			time.Sleep(5 * time.Second)
			_, _ = core.store.Delete("podprotectors", key.name, "", "user")
		}
	}
}

func (sim *simulator) missingProtector() string {
	sim.judge.mu.Lock()
	defer sim.judge.mu.Unlock()
	for _, key := range sim.judge.history.sortedProtectors() {
		if lost := sim.judge.history.protectors[key]; lost.isLost() && !sim.isReleased(lost) && sim.isRecreatable(lost) {
			return fmt.Sprintf("protector %s does not exist", sim.judge.history.protectors[key].name())
		}
	}
	return ""
}

// maxKeeperDelay is how long a keeper may take to recreate a protector while messages are late.
const maxKeeperDelay = 30 * time.Second

// isRecreatable reports whether a vanished protector can be recreated: some keeper has seen it, and its namespace was not deleted shortly
// after it vanished. No API server creates an object in a namespace that is being deleted.
func (sim *simulator) isRecreatable(lost *watchedProtector) bool {
	sim.mu.Lock()
	hasSeen := slices.ContainsFunc(sim.generators, func(p *process) bool { return !lost.unseenBy[p.name] })
	sim.mu.Unlock()
	for _, core := range sim.cores {
		if core.name != lost.core {
			continue
		}
		space, err := core.store.Get(apiserver.Namespaces, types.NamespacedName{Name: lost.stored.Namespace})
		if err == nil && space.GetDeletionTimestamp() != nil && space.GetDeletionTimestamp().Before(&metav1.Time{Time: lost.lostAt.Add(maxKeeperDelay)}) {
			return false
		}
	}
	return hasSeen
}

// lifecycleJudge judges the ends, losses and recreations of protectors by the histories of their Deployments. The lock of the judge guards it.
type lifecycleJudge struct {
	history  *clusterHistory
	report   *report
	liveness *livenessJudge
	stalls   *stalls
	evidence *evidence
	sources  sourceHistories
	// releaseEvents are the release Events that a generator wrote for a protector that it was about to release.
	releaseEvents map[string]bool
}

// recordReleaseEvent treats a protector as released that vanishes when its generator has just recorded in an Event that it may go. Its
// Deployment was deleted on purpose, and no component enforces the protector after the Event.
func (j *lifecycleJudge) recordReleaseEvent(core string, event *eventsv1.Event) {
	for key, w := range j.history.protectors {
		if key.core != core || w.stored == nil || releaseEventKey(w) != event.Name || !j.sources.of(key).current().released {
			continue
		}
		j.releaseEvents[core+"/"+event.Name] = true
		if w.isLost() {
			delete(j.history.protectors, key)
		}
	}
}

func (j *lifecycleJudge) hasReleaseEvent(w *watchedProtector) bool {
	return j.releaseEvents[w.core+"/"+releaseEventKey(w)]
}

func releaseEventKey(lost *watchedProtector) string { return "released-" + string(lost.stored.UID) }

// isReleased reports whether an Event records the release of a protector that vanished then.
func (sim *simulator) isReleased(lost *watchedProtector) bool {
	for _, core := range sim.cores {
		if core.name == lost.core {
			_, err := core.store.Get("events", types.NamespacedName{Namespace: lost.stored.Namespace, Name: releaseEventKey(lost)})
			return err == nil
		}
	}
	return false
}

func isRecreated(p *v1alpha1.PodProtector) bool {
	_, ok := p.Annotations[v1alpha1.AnnotationRestored]
	return ok
}

// isHeld reports whether a protector has a finalizer of ours. This is an independent implementation, not the code under test.
func isHeld(p *v1alpha1.PodProtector) bool {
	return p.DeletionTimestamp == nil && (slices.Contains(p.Finalizers, v1alpha1.FinalizerHold) || slices.Contains(p.Finalizers, v1alpha1.FinalizerProtector))
}

// recordProtectorEnd judges the end of a protector, or records its loss.
func (j *lifecycleJudge) recordProtectorEnd(key protectorKey, e *apiserver.Event) {
	w, last := j.history.protectors[key], e.Old.(*v1alpha1.PodProtector) //nolint:forcetypeassert // the store keeps its kinds apart
	if e.By == "" && w != nil && isHeld(last) && !j.hasReleaseEvent(w) {
		j.report.trace.add("%s vanished", w.name())
		w.lostAt, w.recreatedVersion = time.Now(), 0
		return
	}
	j.judgeProtectorDeletion(key.core, e)
	j.liveness.endedAt[key] = time.Now()
	delete(j.history.protectors, key)
}

// judgeRecreation judges a recreated protector. It has no status at first, and then must count nothing.
func (j *lifecycleJudge) judgeRecreation(w *watchedProtector, p *v1alpha1.PodProtector, e *apiserver.Event) {
	if w.isLost() {
		w.recreatedVersion = e.Version
		// A keeper whose watch lagged, or whose core was restored, last saw another spec.
		if quota.CountedSpec(&w.stored.Spec) != quota.CountedSpec(&p.Spec) || floorOf(w.stored) != floorOf(p) {
			w.coveredSince = e.Version
		}
	} else if w.stored == nil {
		w.coveredSince = e.Version
	}
	for i := range p.Status.Cells {
		if a := &p.Status.Cells[i].Aggregation; !a.Void || a.CountedReplicas != 0 {
			j.report.fail("protector %s was recreated with counts of cell %s", w.name(), p.Status.Cells[i].CellID)
		}
	}
	last := w.stored
	if last == nil {
		last = p
	}
	w.setStored(p, last, e.Version)
}

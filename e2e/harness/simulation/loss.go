package simulation

import (
	"fmt"
	"iter"
	"maps"
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
func (us *protectorUsers) applyProtectorStep(s Step) {
	core := us.env.core(s)
	if s.What == CreateProtector {
		us.createProtectors(core)
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

func (us *protectorUsers) createProtectors(core *clusterState) {
	for _, plan := range us.env.scenario.Protectors {
		if us.env.cores[plan.Core%len(us.env.cores)] == core {
			_, _ = core.store.Create("podprotectors", plan.object(), "user")
		}
	}
}

// recreateForgottenProtectors acts as an operator who sees that a protector vanished that no keeper remembers, because the keeper started later. A protector
// that a keeper remembers must have been recreated by now.
func (fc *finalChecks) recreateForgottenProtectors() {
	fc.releaseUnheldProtectors()
	isKeeperRestarted := slices.ContainsFunc(fc.env.scenario.Steps, func(s Step) bool { return s.What == KillGenerator })
	err := waitUntil(convergenceTime, fc.convergence.missingProtector)
	if fc.convergence.forgetReleasedProtectors() {
		time.Sleep(time.Minute + maxBudgetDelay) // until webhooks have seen the end
	}
	if err == nil {
		return
	}
	if !isKeeperRestarted {
		fc.env.judge.fail("a vanished protector was not recreated within %v", err)
	}
	for lost := range fc.env.judge.lostProtectors() {
		fc.replaceForgottenProtector(lost, policy.IsGenerated(lost.Last))
	}
}

// releaseUnheldProtectors acts as an operator who deleted a protector in a restored core, and sees that webhooks hold it: it creates the protector, and
// deletes it again.
func (fc *finalChecks) releaseUnheldProtectors() {
	ended := fc.env.judge.unheldProtectors()
	for _, last := range ended {
		fc.replaceForgottenProtector(last, true)
	}
	if len(ended) > 0 {
		time.Sleep(time.Minute + maxBudgetDelay) // until webhooks have seen the end
	}
}

// replaceForgottenProtector creates a protector that only webhooks remember, and deletes it when they have seen it, if that is asked for.
func (fc *finalChecks) replaceForgottenProtector(lost endedProtector, deleted bool) {
	key := client.ObjectKeyFromObject(lost.Last)
	recreated := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: lost.Last.Spec}
	for _, core := range fc.env.cores {
		if core.name != lost.Core {
			continue
		}
		_, _ = core.store.Create("podprotectors", recreated, "user")
		if deleted {
			time.Sleep(5 * time.Second)
			_, _ = core.store.Delete("podprotectors", key, "", "user")
		}
	}
}

// endedProtector is a protector that does not exist any more.
type endedProtector struct {
	Core string
	// Last is its last state.
	Last *v1alpha1.PodProtector
}

// forgetReleasedProtectors forgets the protectors that vanished and are released. It reports whether there were any.
func (cv *convergence) forgetReleasedProtectors() (forgot bool) {
	cv.judge.mu.Lock()
	defer cv.judge.mu.Unlock()
	for _, key := range cv.judge.history.sortedProtectors() {
		if lost := cv.judge.history.protectors[key]; lost.isLost() && cv.isReleased(lost) {
			delete(cv.judge.history.protectors, key)
			forgot = true
		}
	}
	return forgot
}

// lostProtectors returns the protectors that vanished and were not recreated.
func (j *judge) lostProtectors() iter.Seq[endedProtector] {
	return func(yield func(endedProtector) bool) {
		for _, key := range j.history.sortedProtectors() {
			if lost := j.history.protectors[key]; lost.isLost() && !yield(endedProtector{key.core, lost.stored}) {
				return
			}
		}
	}
}

// unheldProtectors returns the protectors that ended unheld and were not created since.
func (j *judge) unheldProtectors() (all []endedProtector) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, key := range slices.SortedFunc(maps.Keys(j.lifecycles.endedUnheld), protectorKey.compare) {
		if j.history.protectors[key] == nil {
			all = append(all, endedProtector{key.core, j.lifecycles.endedUnheld[key]})
		}
	}
	return all
}

// missingProtector returns which protector vanished and was not recreated, although it should be; "" if there is none.
func (cv *convergence) missingProtector() string {
	cv.judge.mu.Lock()
	defer cv.judge.mu.Unlock()
	for _, key := range cv.judge.history.sortedProtectors() {
		if lost := cv.judge.history.protectors[key]; lost.isLost() && !cv.isReleased(lost) && cv.isRecreatable(lost) {
			return fmt.Sprintf("protector %s does not exist", cv.judge.history.protectors[key].name())
		}
	}
	return ""
}

// maxKeeperDelay is how long a keeper may take to recreate a protector while messages are late.
const maxKeeperDelay = 30 * time.Second

// isRecreatable reports whether a vanished protector can be recreated: some keeper has seen it, and its namespace was not deleted shortly
// after it vanished. No API server creates an object in a namespace that is being deleted.
func (cv *convergence) isRecreatable(lost *watchedProtector) bool {
	hasSeen := slices.ContainsFunc(cv.generators(), func(name string) bool { return !lost.unseenBy[name] })
	for _, core := range cv.cores {
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
	// policies are the histories of the policies.
	policies policyHistories
	// releaseEvents are the release Events that a generator wrote for a protector that it was about to release.
	releaseEvents map[string]bool
	// endedUnheld are protectors that a client deleted in a restored core that had them without their finalizers. Webhooks that remember the
	// finalizers hold them until a protector of that name is released.
	endedUnheld map[protectorKey]*v1alpha1.PodProtector
}

// recordReleaseEvent treats a protector as released that vanishes when its generator has just recorded in an Event that it may go. Its
// Deployment was deleted on purpose, or a user confirmed, and no component enforces the protector after the Event.
func (j *lifecycleJudge) recordReleaseEvent(core string, event *eventsv1.Event) {
	for key, w := range j.history.protectors {
		if key.core != core || w.stored == nil || releaseEventKey(w) != event.Name || !j.isReleasable(key, time.Now().Add(-maxInFlightRelease)) {
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
func (cv *convergence) isReleased(lost *watchedProtector) bool {
	for _, core := range cv.cores {
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
		w.lostAt, w.lostVersion, w.recreatedVersion = time.Now(), e.Version, 0
		return
	}
	if e.By != "" && w != nil && w.restoredVersion > 0 && last.DeletionTimestamp == nil && !isHeld(last) {
		j.endedUnheld[key] = last
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

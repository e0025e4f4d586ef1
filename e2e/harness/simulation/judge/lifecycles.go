package judge

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// EndedProtector is a protector that does not exist any more.
type EndedProtector struct {
	Core string
	// Last is its last state.
	Last *v1alpha1.PodProtector
}

// ForgetReleasedProtectors forgets the protectors that vanished and are released. It reports whether there were any.
func (cv *Convergence) ForgetReleasedProtectors() (forgot bool) {
	cv.Judge.mu.Lock()
	defer cv.Judge.mu.Unlock()
	for _, key := range cv.Judge.history.sortedProtectors() {
		if lost := cv.Judge.history.protectors[key]; lost.isLost() && cv.isReleased(lost) {
			delete(cv.Judge.history.protectors, key)
			forgot = true
		}
	}
	return forgot
}

// LostProtectors returns the protectors that vanished and were not recreated.
func (j *Judge) LostProtectors() iter.Seq[EndedProtector] {
	return func(yield func(EndedProtector) bool) {
		for _, key := range j.history.sortedProtectors() {
			if lost := j.history.protectors[key]; lost.isLost() && !yield(EndedProtector{key.core, lost.stored}) {
				return
			}
		}
	}
}

// UnheldProtectors returns the protectors that ended unheld and were not created since.
func (j *Judge) UnheldProtectors() (all []EndedProtector) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, key := range slices.SortedFunc(maps.Keys(j.lifecycles.endedUnheld), protectorKey.compare) {
		if j.history.protectors[key] == nil {
			all = append(all, EndedProtector{key.core, j.lifecycles.endedUnheld[key]})
		}
	}
	return all
}

// MissingProtector returns which protector vanished and was not recreated, although it should be; "" if there is none.
func (cv *Convergence) MissingProtector() string {
	cv.Judge.mu.Lock()
	defer cv.Judge.mu.Unlock()
	for _, key := range cv.Judge.history.sortedProtectors() {
		if lost := cv.Judge.history.protectors[key]; lost.isLost() && !cv.isReleased(lost) && cv.isRecreatable(lost) {
			return fmt.Sprintf("protector %s does not exist", cv.Judge.history.protectors[key].name())
		}
	}
	return ""
}

// maxKeeperDelay is how long a keeper may take to recreate a protector while messages are late.
const maxKeeperDelay = 30 * time.Second

// isRecreatable reports whether a vanished protector can be recreated: some keeper has seen it, and its namespace was not deleted shortly
// after it vanished. No API server creates an object in a namespace that is being deleted.
func (cv *Convergence) isRecreatable(lost *watchedProtector) bool {
	hasSeen := slices.ContainsFunc(cv.Generators(), func(name string) bool { return !lost.unseenBy[name] })
	for _, core := range cv.Cores {
		if core.Name != lost.core {
			continue
		}
		space, err := core.Store.Get(apiserver.Namespaces, types.NamespacedName{Name: lost.stored.Namespace})
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
	// endedUnheld are protectors that ended in a restored core that had them without their finalizers. Webhooks that remember the finalizers hold them
	// until a protector of that name is released. A keeper that started after the restore takes them for released.
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
func (cv *Convergence) isReleased(lost *watchedProtector) bool {
	for _, core := range cv.Cores {
		if core.Name == lost.core {
			_, err := core.Store.Get("events", types.NamespacedName{Namespace: lost.stored.Namespace, Name: releaseEventKey(lost)})
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
		j.report.trace.Add("%s vanished", w.name())
		w.lostAt, w.lostVersion, w.recreatedVersion = time.Now(), e.Version, 0
		return
	}
	if w != nil && w.restoredVersion > 0 && last.DeletionTimestamp == nil && !isHeld(last) {
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

package judge

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// The oracle of the floor (rule 13). The replicas that workloads want come from the history of the clusters' stores. For each write of a
// cell's counts:
//
//   - The expectation is the sum of the expectations of the workloads in the status.
//   - The expectation of a workload falls only to a number that the workload wanted at some time between the previous count of the cell
//     and now. It falls to 0 if the workload did not exist at such a time and the policy or a confirmation released it. After a change
//     of leader, that time begins with the leadership, if that is earlier: a leader may write now what it has read since then. A new
//     workload of the same kind and name replaces the old one. If its number does not count pods, it falls to 0.
//   - A workload that exists, and has a pod that the count covers, terminating or not, is in the status once a search for workloads
//     succeeded. A failed search leaves the status unchanged.
//   - A workload that exists, and whose number does not count pods, is not in the status (rule 16). One that was deleted during the leadership
//     stays expected until the leader has read that another one has its name.
//   - No removal is reserved while the floor is unknown.
//
// An expectation may be too high for as long as it takes to read that less is wanted. In a calm, the expectation of each workload that
// exists equals its size, no workload is expected whose number does not count pods, and the status has the floor that follows.

// recordConfirmation records the time at which a protector confirms, or last confirmed.
func (w *watchedProtector) recordConfirmation(old *v1alpha1.PodProtector) {
	for _, p := range []*v1alpha1.PodProtector{w.stored, old} {
		if p != nil && p.Annotations[v1alpha1.AnnotationConfirmRelease] != "" {
			w.lastConfirmed = time.Now()
		}
	}
}

// hasReleased reports whether the protector has released deleted workloads at a time or later.
func (w *watchedProtector) hasReleased(since time.Time) bool {
	return w.stored.Spec.TargetRemovalPolicy == v1alpha1.TargetRemovalRelease || w.stored.Annotations[v1alpha1.AnnotationConfirmRelease] != "" ||
		w.lastConfirmed.After(since)
}

// isCounted reports whether counts are valid and by the current spec of a protector.
func isCounted(p *v1alpha1.PodProtector, a *v1alpha1.Aggregation) bool {
	return !a.Void && a.CountedSpec == quota.CountedSpec(&p.Spec)
}

// writtenSizes returns the expectations of workloads in a status, and their sum.
func (w *watchedProtector) writtenSizes(a *v1alpha1.Aggregation) (sizes map[workloadName]int, sum int) {
	sizes = map[workloadName]int{}
	for i := range a.Workloads {
		e := &a.Workloads[i]
		sizes[w.nameOf(e)] += int(e.Replicas)
		sum += int(e.Replicas)
	}
	return sizes, sum
}

func (w *watchedProtector) nameOf(e *v1alpha1.ExpectedWorkload) workloadName {
	return workloadName{e.Kind, scenario.KeyOf(e.Kind, w.stored.Namespace, e.Name)}
}

// judgeExpectation judges the expectation that a write records for the workloads of a cell.
func (j *aggregationJudge) judgeExpectation(w *watchedProtector, cell, before *v1alpha1.PodProtectorCell, old *v1alpha1.PodProtector) {
	// Removals by force are always admitted, and those that were admitted by an escrow may be named now.
	excused := j.history.countForcedReservationsOfCell(cell, before) + countEscrowed(&before.AdmissionHistory)
	if len(reservationHashes(&cell.AdmissionHistory))-excused > len(reservationHashes(&before.AdmissionHistory)) {
		if _, known := writtenFloor(w.stored); !known {
			j.report.fail("a removal in %s was reserved with protector %s, but its floor is unknown", cell.CellID, w.name())
		}
	}
	a, b := &cell.Aggregation, &before.Aggregation
	if isSameExpectation(a, b) || !isFloorFromWorkloads(&w.stored.Spec) || !isCounted(w.stored, a) || a.ExpectedReplicas == nil {
		return
	}
	t := &j.history.cells[cell.CellID].workloads
	if w.isTarget() {
		return // judgeTarget judges its number
	}
	is, sum := w.writtenSizes(a)
	was, _ := w.writtenSizes(b)
	hasSearched := !maps.Equal(is, was) || b.ExpectedReplicas == nil || *a.ExpectedReplicas != *b.ExpectedReplicas
	if hasSearched && sum != int(*a.ExpectedReplicas) {
		j.report.fail("protector %s expects %d pods of %s, and %d of its workloads", w.name(), *a.ExpectedReplicas, cell.CellID, sum)
	}
	isContinued := old != nil && old.UID == w.stored.UID && a.SelectedSpec == b.SelectedSpec && b.ExpectedReplicas != nil
	if isContinued {
		from := j.previousCount(w, cell, before)
		for name := range was {
			j.judgeExpectationDecrease(w, cell.CellID, t, name, was[name], is[name], from)
		}
	}
	if hasSearched {
		j.judgeMissingWorkloads(w, cell, is)
		j.judgeUncountedWorkloads(w, cell)
	}
}

// previousCount returns the time since which a count may have read what it says of workloads: that of the previous count, or the beginning
// of a new leadership, if that is earlier.
func (j *aggregationJudge) previousCount(w *watchedProtector, cell, before *v1alpha1.PodProtectorCell) time.Time {
	a, b, t := &cell.Aggregation, &before.Aggregation, &j.history.cells[cell.CellID].workloads
	first := min(j.history.earliestRestores(w.core, cell.CellID, a.Epoch), j.history.earliestRestores(w.core, cell.CellID, b.Epoch))
	from, began := t.timeOf(first, parseVersion(b.SnapshotVersion)), t.leadershipStarts[leadershipKey{w.core, a.Epoch}]
	if (a.Epoch != b.Epoch || a.Holder != b.Holder) && began.Before(from) {
		return began
	}
	return from
}

// isSameExpectation reports whether a write leaves the expectation of a cell unchanged. One snapshot may be counted again by another spec.
func isSameExpectation(a, b *v1alpha1.Aggregation) bool {
	return a.Epoch == b.Epoch && a.SnapshotVersion == b.SnapshotVersion && a.CountedSpec == b.CountedSpec && a.SelectedSpec == b.SelectedSpec &&
		equality.Semantic.DeepEqual(a.ExpectedReplicas, b.ExpectedReplicas) && equality.Semantic.DeepEqual(a.Workloads, b.Workloads)
}

// judgeExpectationDecrease judges a decrease of the expectation of a workload.
func (j *aggregationJudge) judgeExpectationDecrease(w *watchedProtector, cell string, t *workloadHistories, name workloadName, before, after int,
	from time.Time) {
	truth := t.byName[name]
	if after >= before {
		return
	}
	var wanted []string
	if truth != nil {
		for _, s := range truth.since(from) {
			isReleased := !s.exists && after == 0 && w.hasReleased(from)
			isCountedElsewhere := s.exists && s.size == notCounted && after == 0 // until it existed again, nothing said that it has no scale
			if s.exists && s.size == after || isReleased || isCountedElsewhere {
				return
			}
			wanted = append(wanted, fmt.Sprintf("%d (exists: %v)", s.size, s.exists))
		}
	}
	j.report.fail("protector %s expects %d pods of %s %s in %s where it expected %d, and it has wanted %v since",
		w.name(), after, name.kind, name.name.Name, cell, before, wanted)
}

// judgeMissingWorkloads checks that every workload is expected of which a count has seen a pod.
func (j *aggregationJudge) judgeMissingWorkloads(w *watchedProtector, cell *v1alpha1.PodProtectorCell, is map[workloadName]int) {
	t := j.history.cells[cell.CellID]
	version := parseVersion(cell.Aggregation.SnapshotVersion)
	if t.restores > j.history.earliestRestores(w.core, cell.CellID, cell.Aggregation.Epoch) {
		return // the snapshot may be from before a restore
	}
	from := t.workloads.timeOf(t.restores, version)
	for _, uid := range slices.Sorted(maps.Keys(t.pods)) {
		state, ok := t.pods[uid].at(version)
		if !ok || state.isDeleted || state.isFinished() || !w.covers(state.pod) || t.pods[uid].current().isDeleted {
			continue
		}
		if listed, _ := t.pods[uid].at(max(version, parseVersion(cell.Aggregation.SettledVersion))); !w.covers(listed.pod) {
			continue // a live list has shown that it was relabeled
		}
		name, chain, ok := t.workloads.workloadOf(state.pod)
		if !ok {
			continue
		}
		if _, isExpected := is[name]; t.workloads.hasExistedSince(chain, from) && !isExpected {
			j.report.fail("protector %s expects no pods of %s %s in %s, of which it has counted %s", w.name(), name.kind, name.name.Name, cell.CellID, state.pod.Name)
		}
	}
}

// judgeUncountedWorkloads checks that no workload is expected whose number does not count pods. A leader that has read that a workload was deleted
// need not have read that another one has its name now.
func (j *aggregationJudge) judgeUncountedWorkloads(w *watchedProtector, cell *v1alpha1.PodProtectorCell) {
	t, a := j.history.cells[cell.CellID], &cell.Aggregation
	began := t.workloads.leadershipStarts[leadershipKey{w.core, a.Epoch}]
	for i := range a.Workloads {
		name := w.nameOf(&a.Workloads[i])
		if t.isUncounted(name) && (!a.Workloads[i].Gone || !t.workloads.byName[name].wasMissingSince(began)) {
			j.report.fail("protector %s expects pods of %s %s in %s, whose number does not count them", w.name(), name.kind, name.name.Name, cell.CellID)
		}
	}
}

// expectationProblem returns why a protector does not expect yet what the workloads want; "" if it does.
func (cv *Convergence) expectationProblem(core string, p *v1alpha1.PodProtector) string {
	if !isFloorFromWorkloads(&p.Spec) || p.Spec.TargetRef != nil {
		return ""
	}
	cv.Judge.mu.Lock()
	defer cv.Judge.mu.Unlock()
	watched := cv.Judge.history.protectors[protectorKey{core, client.ObjectKeyFromObject(p)}]
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		sizes, sum := watched.writtenSizes(&cell.Aggregation)
		if expected := cell.Aggregation.ExpectedReplicas; expected == nil || int(*expected) != sum {
			return fmt.Sprintf("protector %s expects %v in %s, and %d of its workloads: %s", p.Name, expected, cell.CellID, sum,
				cell.Aggregation.ExpectedReplicasProblem)
		}
		t := cv.Judge.history.cells[cell.CellID]
		for j := range cell.Aggregation.Workloads {
			if name := watched.nameOf(&cell.Aggregation.Workloads[j]); t.isUncounted(name) {
				return fmt.Sprintf("protector %s expects pods of %s %s in %s, whose number does not count them", p.Name, name.kind, name.name.Name, cell.CellID)
			}
		}
		for name, truth := range t.workloads.byName {
			is, isExpected := sizes[name]
			if now := truth.current(); now.size != notCounted && now.exists && (isExpected || t.hasPods(watched, name)) && is != now.size {
				return fmt.Sprintf("protector %s expects %d pods of %s %s in %s, which wants %d", p.Name, is, name.kind, name.name.Name, cell.CellID, now.size)
			}
		}
	}
	if floor, known := writtenFloor(p); !known || int(p.Status.DesiredAvailable) != floor {
		return fmt.Sprintf("protector %s has a floor of %d (known: %v), but its status has %d", p.Name, floor, known, p.Status.DesiredAvailable)
	}
	return ""
}

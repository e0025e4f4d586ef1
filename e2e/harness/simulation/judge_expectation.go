package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// The oracle of the floor (rule 13). The replicas that workloads want come from the history of the clusters' stores. For each write of a
// cell's counts:
//
//   - The expectation is the sum of the expectations of the workloads in the status.
//   - The expectation of a workload falls only to a number that the workload wanted at some time between the previous count of the cell
//     and now. It falls to 0 if the workload did not exist at such a time and the policy or a confirmation released it. After a change
//     of leader, that time begins with the leadership, if that is earlier: a leader may write now what it has read since then. A new
//     workload of the same kind and name replaces the old one.
//   - A workload that exists, and has a pod that the count covers, terminating or not, is in the status once a search for workloads
//     succeeded. A failed search leaves the status unchanged.
//   - No removal is reserved while the floor is unknown.
//
// An expectation may be too high for as long as it takes to read that less is wanted. In a calm, the expectation of each workload that
// exists equals its size, and the status has the floor that follows.

// workloadHistories is how many pods the workloads of a cell wanted at what time.
type workloadHistories struct {
	// byName are the states of the Deployments, StatefulSets and ReplicaSets, oldest first.
	byName map[workloadName]*workloadHistory
	// deploymentOfSet are the UIDs of the Deployments of all ReplicaSets that have ever existed.
	deploymentOfSet map[types.UID]types.UID
	// names are the workloads by their UIDs.
	names map[types.UID]workloadName
	// versions are the times of all changes of the cell, in its eras.
	versions []restoreVersion
	restores int
	// leadershipStarts is when the leaderships of the cell began.
	leadershipStarts map[leadershipKey]time.Time
}

type workloadName struct {
	kind string
	name types.NamespacedName
}

type leadershipKey struct {
	core  string
	epoch int64
}

type restoreVersion struct {
	restores int
	version  uint64
	at       time.Time
}

type workloadHistory struct{ states []workloadState }

type workloadState struct {
	version uint64
	at      time.Time
	uid     types.UID
	exists  bool
	// size is how many pods it wants, or last wanted.
	size int
}

func newWorkloadTruths() workloadHistories {
	return workloadHistories{
		byName: map[workloadName]*workloadHistory{}, deploymentOfSet: map[types.UID]types.UID{}, names: map[types.UID]workloadName{},
		leadershipStarts: map[leadershipKey]time.Time{},
	}
}

// observe records a change of the cell.
func (t *workloadHistories) observe(e *apiserver.Event) {
	t.versions = append(t.versions, restoreVersion{t.restores, e.Version, time.Now()})
	switch e.Kind.Kind {
	case kindReplicaSet:
		if deployment := metav1.GetControllerOf(e.New); deployment != nil {
			t.deploymentOfSet[e.New.GetUID()] = deployment.UID
		}
		t.addState(e, replicaSetSize)
	case kindDeployment, kindStatefulSet:
		t.names[e.New.GetUID()] = t.addState(e, replicasOf(e.New))
	}
}

// replicaSetSize is the size of a ReplicaSet: its pods are expected as part of their Deployment. Without its Deployment, a ReplicaSet is a
// workload of its own, which a search finds while both are being deleted.
const replicaSetSize = -1

// addState adds a state of a workload.
func (t *workloadHistories) addState(e *apiserver.Event, size int) workloadName {
	name := workloadName{e.Kind.Kind, client.ObjectKeyFromObject(e.New)}
	if t.byName[name] == nil {
		t.byName[name] = &workloadHistory{}
	}
	t.byName[name].states = append(t.byName[name].states, workloadState{e.Version, time.Now(), e.New.GetUID(), e.Type != watch.Deleted, size})
	return name
}

// restore records that the cell has returned to a version. All states stay, because they may have been read.
func (t *workloadHistories) restore(version uint64) {
	t.restores++
	for _, truth := range t.byName {
		back, ok := workloadState{}, false
		for _, s := range truth.states {
			if s.version <= version {
				back, ok = s, true
			}
		}
		now := truth.current()
		if !ok {
			back = workloadState{uid: now.uid, size: now.size}
		}
		for i := range truth.states { // higher versions occur a second time
			if truth.states[i].version > version {
				truth.states[i].version = version
			}
		}
		back.version, back.at = version, time.Now()
		truth.states = append(truth.states, back)
	}
	t.versions = append(t.versions, restoreVersion{t.restores, version, time.Now()})
}

func (t *workloadHistory) current() workloadState { return t.states[len(t.states)-1] }

// since returns the states that held at a time or later.
func (t *workloadHistory) since(at time.Time) []workloadState {
	for i := len(t.states) - 1; i > 0; i-- {
		if !t.states[i].at.After(at) {
			return t.states[i:]
		}
	}
	return t.states
}

// timeOf returns when the cell reached a version, in the earliest era from first on in which it did.
func (t *workloadHistories) timeOf(first int, version uint64) (at time.Time) {
	for i, v := range t.versions {
		isLast := i+1 == len(t.versions) || t.versions[i+1].restores > v.restores || t.versions[i+1].version > version
		if v.restores >= first && v.version <= version && isLast {
			return v.at
		}
	}
	return at
}

// workloadOf returns the workload at the top of a pod's owners.
func (t *workloadHistories) workloadOf(pod *corev1.Pod) (name workloadName, ok bool) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return name, false
	}
	uid := owner.UID
	if deployment, isSet := t.deploymentOfSet[uid]; isSet {
		uid = deployment
	}
	name, ok = t.names[uid]
	return name, ok
}

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
	for _, e := range a.Workloads {
		sizes[workloadName{e.Kind, types.NamespacedName{Namespace: w.stored.Namespace, Name: e.Name}}] += int(e.Replicas)
		sum += int(e.Replicas)
	}
	return sizes, sum
}

// judgeExpectation judges the expectation that a write records for the workloads of a cell.
func (j *judge) judgeExpectation(w *watchedProtector, cell, before *v1alpha1.PodProtectorCell, old *v1alpha1.PodProtector) {
	if len(reservationHashes(&cell.AdmissionHistory))-j.countForcedReservationsOfCell(cell, before) > len(reservationHashes(&before.AdmissionHistory)) {
		if _, known := writtenFloor(w.stored); !known {
			j.fail("a removal in %s was reserved with protector %s, but its floor is unknown", cell.CellID, w.name())
		}
	}
	a, b := &cell.Aggregation, &before.Aggregation
	if isSameExpectation(a, b) || !isFloorFromWorkloads(&w.stored.Spec) || !isCounted(w.stored, a) || a.ExpectedReplicas == nil {
		return
	}
	t := &j.cells[cell.CellID].workloads
	is, sum := w.writtenSizes(a)
	was, _ := w.writtenSizes(b)
	hasSearched := !maps.Equal(is, was) || b.ExpectedReplicas == nil || *a.ExpectedReplicas != *b.ExpectedReplicas
	if hasSearched && sum != int(*a.ExpectedReplicas) {
		j.fail("protector %s expects %d pods of %s, and %d of its workloads", w.name(), *a.ExpectedReplicas, cell.CellID, sum)
	}
	first := j.earliestRestores(w.core, cell.CellID, a.Epoch)
	began := t.leadershipStarts[leadershipKey{w.core, a.Epoch}]
	isContinued := old != nil && old.UID == w.stored.UID && a.SelectedSpec == b.SelectedSpec && b.ExpectedReplicas != nil
	if isContinued {
		from := t.timeOf(min(first, j.earliestRestores(w.core, cell.CellID, b.Epoch)), parseVersion(b.SnapshotVersion))
		if (a.Epoch != b.Epoch || a.Holder != b.Holder) && began.Before(from) {
			from = began
		}
		for name := range was {
			j.judgeExpectationDecrease(w, cell.CellID, t, name, was[name], is[name], from)
		}
	}
	if hasSearched {
		j.judgeMissingWorkloads(w, cell, is)
	}
}

// isSameExpectation reports whether a write leaves the expectation of a cell unchanged. One snapshot may be counted again by another spec.
func isSameExpectation(a, b *v1alpha1.Aggregation) bool {
	return a.Epoch == b.Epoch && a.SnapshotVersion == b.SnapshotVersion && a.CountedSpec == b.CountedSpec && a.SelectedSpec == b.SelectedSpec &&
		equality.Semantic.DeepEqual(a.ExpectedReplicas, b.ExpectedReplicas) && equality.Semantic.DeepEqual(a.Workloads, b.Workloads)
}

// judgeExpectationDecrease judges a decrease of the expectation of a workload.
func (j *judge) judgeExpectationDecrease(w *watchedProtector, cell string, t *workloadHistories, name workloadName, before, after int, from time.Time) {
	truth := t.byName[name]
	if after >= before {
		return
	}
	var wanted []string
	if truth != nil {
		for _, s := range truth.since(from) {
			isReleased := !s.exists && after == 0 && w.hasReleased(from)
			if s.exists && s.size == after || isReleased {
				return
			}
			wanted = append(wanted, fmt.Sprintf("%d (exists: %v)", s.size, s.exists))
		}
	}
	j.fail("protector %s expects %d pods of %s %s in %s where it expected %d, and it has wanted %v since",
		w.name(), after, name.kind, name.name.Name, cell, before, wanted)
}

// judgeMissingWorkloads checks that every workload is expected of which a count has seen a pod.
func (j *judge) judgeMissingWorkloads(w *watchedProtector, cell *v1alpha1.PodProtectorCell, is map[workloadName]int) {
	t := j.cells[cell.CellID]
	version := parseVersion(cell.Aggregation.SnapshotVersion)
	if t.restores > j.earliestRestores(w.core, cell.CellID, cell.Aggregation.Epoch) {
		return // the snapshot may be from before a restore
	}
	from := t.workloads.timeOf(t.restores, version)
	for _, uid := range slices.Sorted(maps.Keys(t.pods)) {
		state, ok := t.pods[uid].at(version)
		if !ok || state.isDeleted || state.isFinished() || !w.covers(state.pod) || t.pods[uid].current().isDeleted {
			continue
		}
		if listed, _ := t.pods[uid].at(max(version, parseVersion(cell.Aggregation.SettledVersion))); !w.covers(listed.pod) {
			continue // a live list has shown that it was relabelled
		}
		name, ok := t.workloads.workloadOf(state.pod)
		if !ok {
			continue
		}
		hasExisted := !slices.ContainsFunc(t.workloads.byName[name].since(from), func(s workloadState) bool { return !s.exists })
		if _, isExpected := is[name]; hasExisted && !isExpected {
			j.fail("protector %s expects no pods of %s %s in %s, of which it has counted %s", w.name(), name.kind, name.name.Name, cell.CellID, state.pod.Name)
		}
	}
}

// expectationProblem returns why a protector does not expect yet what the workloads want; "" if it does.
func (sim *simulator) expectationProblem(core string, p *v1alpha1.PodProtector) string {
	if !isFloorFromWorkloads(&p.Spec) {
		return ""
	}
	sim.judge.mu.Lock()
	defer sim.judge.mu.Unlock()
	watched := sim.judge.protectors[protectorKey{core, client.ObjectKeyFromObject(p)}]
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		sizes, sum := watched.writtenSizes(&cell.Aggregation)
		if expected := cell.Aggregation.ExpectedReplicas; expected == nil || int(*expected) != sum {
			return fmt.Sprintf("protector %s expects %v in %s, and %d of its workloads: %s", p.Name, expected, cell.CellID, sum,
				cell.Aggregation.ExpectedReplicasProblem)
		}
		t := sim.judge.cells[cell.CellID]
		for name, truth := range t.workloads.byName {
			is, isExpected := sizes[name]
			if now := truth.current(); name.kind != kindReplicaSet && now.exists && (isExpected || t.hasPods(watched, name)) && is != now.size {
				return fmt.Sprintf("protector %s expects %d pods of %s %s in %s, which wants %d", p.Name, is, name.kind, name.name.Name, cell.CellID, now.size)
			}
		}
	}
	if floor, known := writtenFloor(p); !known || int(p.Status.DesiredAvailable) != floor {
		return fmt.Sprintf("protector %s has a floor of %d (known: %v), but its status has %d", p.Name, floor, known, p.Status.DesiredAvailable)
	}
	return ""
}

// hasPods reports whether a workload has pods that a protector covers.
func (t *cellHistory) hasPods(w *watchedProtector, name workloadName) bool {
	for _, line := range t.pods {
		if now := line.current(); !now.isGoneOrTerminating() && !now.isFinished() && w.covers(now.pod) {
			if owner, ok := t.workloads.workloadOf(now.pod); ok && owner == name {
				return true
			}
		}
	}
	return false
}

package judge

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// workloadHistories is how many pods the workloads of a cell wanted at what time.
type workloadHistories struct {
	// byName are the states of the objects that control pods or workloads, oldest first.
	byName map[workloadName]*workloadHistory
	// objects are all such objects that have ever existed, as they last were.
	objects map[types.UID]*controllerObject
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
	// size is how many pods it wants, or last wanted; notCounted if its number does not count pods. selector is that of its scale.
	size     int
	selector string
}

func newWorkloadTruths() workloadHistories {
	return workloadHistories{
		byName: map[workloadName]*workloadHistory{}, objects: map[types.UID]*controllerObject{}, leadershipStarts: map[leadershipKey]time.Time{},
	}
}

// observe records a change of the cell.
func (t *workloadHistories) observe(e *apiserver.Event) {
	t.versions = append(t.versions, restoreVersion{t.restores, e.Version, time.Now()})
	if o := newController(e.Kind.Kind, e.New); o != nil {
		t.objects[e.New.GetUID()] = o
		t.addState(e, o, t.sizeOf(o, e.New))
	}
}

// notCounted is the size of a ReplicaSet whose pods are expected as part of their Deployment, and of objects without a scale. Without its
// Deployment, a ReplicaSet is a workload of its own, which a search finds while both are being deleted.
const notCounted = -1

// addState adds a state of an object.
func (t *workloadHistories) addState(e *apiserver.Event, o *controllerObject, size int) {
	if t.byName[o.name] == nil {
		t.byName[o.name] = &workloadHistory{}
	}
	state := workloadState{version: e.Version, at: time.Now(), uid: e.New.GetUID(), exists: e.Type != watch.Deleted, size: size}
	if o.selector != nil {
		state.selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: o.selector})
	}
	t.byName[o.name].states = append(t.byName[o.name].states, state)
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
			back = workloadState{uid: now.uid, size: now.size, selector: now.selector}
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

// wasMissingSince reports whether the name was free at a time or later.
func (t *workloadHistory) wasMissingSince(at time.Time) bool {
	return slices.ContainsFunc(t.since(at), func(s workloadState) bool { return !s.exists })
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

// hasPods reports whether a workload has pods that a protector covers, and all controllers from the pods to the workload exist.
func (t *cellHistory) hasPods(w *watchedProtector, name workloadName) bool {
	for _, line := range t.pods {
		if now := line.current(); !now.isGoneOrTerminating() && !now.isFinished() && w.covers(now.pod) {
			if owner, chain, ok := t.workloads.workloadOf(now.pod); ok && owner == name && t.workloads.hasExistedSince(chain, time.Now()) {
				return true
			}
		}
	}
	return false
}

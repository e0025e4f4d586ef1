package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

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

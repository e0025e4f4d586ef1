package simulation

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/internal/quota"
)

// truth is what really was in a cell, version by version. It comes from the store, not from anybody's status.
type truth struct {
	pods map[types.UID]*lifeline
	// byHash finds a pod as merged reservations name it.
	byHash map[quota.UIDHash]*lifeline
	// losses are pods that became unavailable without a removal that was charged.
	losses []loss
	// era is how often the cell was restored, past what it was before each time, begin its first version.
	era   int
	past  []map[types.UID]*lifeline
	begin uint64
	// workloads are the workloads of the cell.
	workloads workloadTruths
}

// lifeline is all states of a pod, oldest first.
type lifeline struct {
	uid    types.UID
	name   string
	states []podState
}

type podState struct {
	version uint64
	at      time.Time
	pod     *corev1.Pod
	gone    bool
}

type loss struct {
	why     Reason
	era     int
	version uint64
	// pod is as it was before.
	pod *corev1.Pod
	// only is the protector that it is a loss for; nil is all.
	only *watched
}

func newTruth() *truth {
	return &truth{pods: map[types.UID]*lifeline{}, byHash: map[quota.UIDHash]*lifeline{}, workloads: newWorkloadTruths()}
}

// observe takes in a change and returns the pod's states before and after it; before is nil for a new pod.
func (t *truth) observe(e *apiserverEvent) (line *lifeline, before *podState, after podState) {
	pod, ok := e.New.(*corev1.Pod)
	if !ok {
		return nil, nil, podState{}
	}
	line = t.pods[pod.UID]
	if line == nil {
		line = &lifeline{uid: pod.UID, name: pod.Name}
		t.pods[pod.UID], t.byHash[quota.HashUID(pod.UID)] = line, line
	}
	if n := len(line.states); n > 0 {
		state := line.states[n-1]
		before = &state
	}
	after = podState{version: e.Version, at: time.Now(), pod: pod, gone: e.Type == watch.Deleted}
	line.states = append(line.states, after)
	return line, before, after
}

// at is the pod's state at a version.
func (l *lifeline) at(version uint64) (podState, bool) {
	for i := len(l.states) - 1; i >= 0; i-- {
		if l.states[i].version <= version {
			return l.states[i], true
		}
	}
	return podState{}, false
}

func (l *lifeline) now() podState { return l.states[len(l.states)-1] }

// over tells whether no removal of the pod can cost anything any more.
func (s podState) over() bool { return s.gone || s.pod.DeletionTimestamp != nil }

// isReady is what the Ready condition says; "" when there is none. It is read here, not by the code that is on trial.
func (s podState) isReady() (status corev1.ConditionStatus, since time.Time) {
	for _, c := range s.pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status, c.LastTransitionTime.Time
		}
	}
	return "", time.Time{}
}

// ready pods count as available after minReadySeconds.
func (s podState) ready() bool {
	status, _ := s.isReady()
	return !s.over() && s.pod.Status.Phase == corev1.PodRunning && status == corev1.ConditionTrue
}

func (s podState) available(p *watched, now time.Time) bool {
	_, since := s.isReady()
	wait := time.Duration(p.stored.Spec.MinReadySeconds) * time.Second
	return s.ready() && p.covers(s.pod) && (wait == 0 || !now.Before(since.Add(wait)))
}

// charged pods cost a removal budget: available ones, and those of which nobody can tell.
func (s podState) charged(p *watched, now time.Time) bool {
	status, _ := s.isReady()
	doubtful := !s.over() && s.pod.Status.Phase == corev1.PodRunning && status != corev1.ConditionTrue && status != corev1.ConditionFalse
	return s.available(p, now) || doubtful && p.covers(s.pod)
}

// available counts a protector's available pods now.
func (t *truth) available(p *watched, now time.Time) int {
	n := 0
	for _, line := range t.pods {
		if line.now().available(p, now) {
			n++
		}
	}
	return n
}

// availableAt counts them at a version of an era, and how many of those are not any more, had gone in an era before, from
// the first on, or were not the protector's at a later version, which a live list has shown; 0 is no list.
func (t *truth) availableAt(p *watched, first, era int, version, list uint64, now time.Time) (then, goneSince int) {
	for uid, line := range t.podsOf(era) {
		state, ok := line.at(version)
		if !ok || !state.available(p, now) {
			continue
		}
		then++
		listed, _ := line.at(max(version, list))
		current := t.pods[uid]
		if current == nil || current.now().over() || !p.covers(listed.pod) || t.hadGone(uid, first, era) {
			goneSince++
		}
	}
	return then, goneSince
}

// hadGone tells whether a pod had gone in one of the eras from the first to before the last.
func (t *truth) hadGone(uid types.UID, first, last int) bool {
	for era := first; era < last; era++ {
		if line := t.podsOf(era)[uid]; line != nil && line.now().over() {
			return true
		}
	}
	return false
}

func (t *truth) podsOf(era int) map[types.UID]*lifeline {
	if era < t.era {
		return t.past[era]
	}
	return t.pods
}

// lostSince counts the pods of a protector that were lost without a charged removal after a version, but for one reason.
func (t *truth) lostSince(seen sighting, p *watched, but Reason) int {
	n := 0
	for _, l := range t.losses {
		if after := l.era > seen.era || l.era == seen.era && l.version > seen.version; after && p.covers(l.pod) && (l.only == nil || l.only == p) && l.why != but {
			n++
		}
	}
	return n
}

// sighting is a version of a cell in one of its eras.
type sighting struct {
	era     int
	version uint64
}

// restore takes the cell back to a version. Pods that were available and are not then, are lost.
func (t *truth) restore(version uint64) (lost int) {
	t.past = append(t.past, t.pods)
	t.era++
	before := t.pods
	t.pods, t.byHash = map[types.UID]*lifeline{}, map[quota.UIDHash]*lifeline{}
	for uid, line := range before {
		kept := &lifeline{uid: uid, name: line.name}
		for _, state := range line.states {
			if state.version <= version {
				kept.states = append(kept.states, state)
			}
		}
		if was := line.now(); was.ready() && (len(kept.states) == 0 || !kept.now().ready()) {
			t.losses = append(t.losses, loss{why: lossByRestore, era: t.era, pod: was.pod})
			lost++
		}
		if len(kept.states) > 0 {
			t.pods[uid], t.byHash[quota.HashUID(uid)] = kept, kept
		}
	}
	return lost
}

func parseVersion(text string) uint64 {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return version
}

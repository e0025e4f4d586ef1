package simulation

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// truth is the true state of a cell, version by version. It comes from the store, not from a status.
type truth struct {
	pods map[types.UID]*lifeline
	// byHash finds a pod by its hash in merged reservations.
	byHash map[quota.UIDHash]*lifeline
	// forced are the pods that users remove by force.
	forced map[quota.UIDHash]bool
	// losses are pods that became unavailable without a charged removal.
	losses []loss
	// era is how often the cell was restored. past is its pods before each restore. begin is its version when all protectors had been
	// counted.
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
	// before and after are the pod's states. ended is when the pod was no longer ready after that; zero if it stayed ready.
	before, after podState
	ended         time.Time
	// only is the protector that loses the pod; nil is all.
	only *watched
	// until is the version of the last decision on that protector that did not account for the loss; 0 is no limit.
	until uint64
}

// excuses reports whether the loss excuses a decision on a protector at a time. seen is the snapshot of the cell that the decision used.
func (l *loss) excuses(p *watched, seen sighting, decided uint64, now time.Time) bool {
	switch {
	case l.era < seen.era || l.era == seen.era && l.version <= seen.version: // the snapshot shows it
		return false
	case l.only != nil && l.only != p || l.until > 0 && decided > l.until:
		return false
	default:
		if !l.ended.IsZero() && l.ended.Before(now) {
			now = l.ended // its readiness never became older
		}
		_, was := l.before.isReady()
		_, is := l.after.isReady()
		isYoung := is.After(was) && !l.after.available(p, now)
		return l.before.countable(p) && (!l.after.countable(p) || isYoung)
	}
}

func newTruth() *truth {
	return &truth{pods: map[types.UID]*lifeline{}, byHash: map[quota.UIDHash]*lifeline{}, forced: map[quota.UIDHash]bool{}, workloads: newWorkloadTruths()}
}

// observe records a change and returns the pod's states before and after it; before is nil for a new pod.
func (t *truth) observe(e *apiserverEvent) (line *lifeline, before *podState, after podState) {
	pod, ok := e.New.(*corev1.Pod)
	if !ok {
		return nil, nil, podState{}
	}
	t.notesForce(pod)
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

// at returns the pod's state at a version.
func (l *lifeline) at(version uint64) (podState, bool) {
	for i := len(l.states) - 1; i >= 0; i-- {
		if l.states[i].version <= version {
			return l.states[i], true
		}
	}
	return podState{}, false
}

func (l *lifeline) now() podState { return l.states[len(l.states)-1] }

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

// availableAt counts them at a version of an era. goneSince counts those of them that do not exist any more or terminate, that did so in
// an earlier era from first on, or that the protector did not count at the version list, which is that of a later live list; 0 is no list.
// aged counts those that were available by their age: they may not have been seen alive since. A pod that ended before it was available by
// its age never was.
func (t *truth) availableAt(p *watched, first, era int, version, list uint64, now time.Time, lenience time.Duration) (then, goneSince, aged int) {
	for uid, line := range t.podsOf(era) {
		state, ok := line.at(version)
		if !ok || !state.available(p, now) {
			continue
		}
		if since := state.agedSince(p); !since.IsZero() {
			if end, ended := line.end(); ended && end.version == state.version && end.when.Add(lenience).Before(since) {
				continue
			}
			aged++
		}
		then++
		listed, _ := line.at(max(version, list))
		current := t.pods[uid]
		if current == nil || current.now().over() || !p.counts(listed.pod) || t.hadGone(uid, first, era) {
			goneSince++
		}
	}
	return then, goneSince, aged
}

// hadGone reports whether a pod had gone in one of the eras from first to before last.
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

// lostSince counts the pods of a protector whose loss excuses a decision that saw the cell at a version. It leaves one reason out. A pod
// is missing once, no matter how often it was lost, and is not missing when it is available again.
func (t *truth) lostSince(seen sighting, p *watched, decided uint64, now time.Time, but Reason) int {
	lost := map[types.UID]bool{}
	for i := range t.losses {
		l := &t.losses[i]
		if uid := l.before.pod.UID; l.why != but && l.excuses(p, seen, decided, now) && !t.isAvailable(uid, p, now) {
			lost[uid] = true
		}
	}
	return len(lost)
}

func (t *truth) isAvailable(uid types.UID, p *watched, now time.Time) bool {
	line := t.pods[uid]
	return line != nil && line.now().available(p, now)
}

// sighting is a version of a cell in one of its eras.
type sighting struct {
	era     int
	version uint64
}

// ends records in the losses of a pod when it was no longer ready.
func (t *truth) ends(uid types.UID, at time.Time) {
	for i := range t.losses {
		if l := &t.losses[i]; l.before.pod.UID == uid && l.ended.IsZero() {
			l.ended = at
		}
	}
}

// restore returns the cell to a version. It records the loss of each pod that existed before, and counts those that were ready and are
// not.
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
		was, is := line.now(), podState{gone: true}
		if len(kept.states) > 0 {
			is = kept.now()
		}
		if !was.over() {
			t.losses = append(t.losses, loss{why: lossByRestore, era: t.era, before: was, after: is})
		}
		if was.ready() && !is.ready() {
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

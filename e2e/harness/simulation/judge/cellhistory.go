package judge

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// cellHistory is the true state of a cell, version by version. It comes from the store, not from a status.
type cellHistory struct {
	pods map[types.UID]*podHistory
	// byHash finds a pod by its hash in merged reservations.
	byHash map[quota.UIDHash]*podHistory
	// forcedPods are the pods that users remove by force.
	forcedPods map[quota.UIDHash]bool
	// losses are pods that became unavailable without a charged removal.
	losses []loss
	// restores is how often the cell was restored. podsBeforeRestores are its pods before each of them.
	restores           int
	podsBeforeRestores []map[types.UID]*podHistory
	// workloads are the workloads of the cell.
	workloads workloadHistories
}

// podHistory is all states of a pod, oldest first.
type podHistory struct {
	uid    types.UID
	name   string
	states []podState
}

type podState struct {
	version   uint64
	at        time.Time
	pod       *corev1.Pod
	isDeleted bool
}

type loss struct {
	excuse   Excuse
	restores int
	version  uint64
	// before and after are the pod's states. ended is when the pod was no longer ready after that; zero if it stayed ready.
	before, after podState
	notReadyAt    time.Time
	// protector is the protector that loses the pod; nil is all.
	protector *watchedProtector
	// lastDecision is the version of the last decision on that protector that did not account for the loss; 0 is no limit.
	lastDecision uint64
}

// isExcuseFor reports whether the loss excuses a decision on a protector at a time. seen is the snapshot of the cell that the decision used.
func (l *loss) isExcuseFor(p *watchedProtector, seen observedVersion, decided uint64, now time.Time) bool {
	switch {
	case l.restores < seen.restores || l.restores == seen.restores && l.version <= seen.version: // the snapshot shows it
		return false
	case l.protector != nil && l.protector != p || l.lastDecision > 0 && decided > l.lastDecision:
		return false
	default:
		if !l.notReadyAt.IsZero() && l.notReadyAt.Before(now) {
			now = l.notReadyAt // its readiness never became older
		}
		_, readyBefore := l.before.readyCondition()
		_, readyAfter := l.after.readyCondition()
		isYoung := readyAfter.After(readyBefore) && !l.after.isAvailable(p, now)
		return l.before.isCountable(p) && (!l.after.isCountable(p) || isYoung)
	}
}

// excuseUntilCounted lets the loss of a pod excuse all decisions on a protector, until they use a snapshot that shows the loss.
func (t *cellHistory) excuseUntilCounted(p *watchedProtector, uid types.UID) {
	for i := range t.losses {
		if l := &t.losses[i]; l.protector == p && l.before.pod.UID == uid {
			l.lastDecision = 0
		}
	}
}

func newTruth() *cellHistory {
	return &cellHistory{pods: map[types.UID]*podHistory{}, byHash: map[quota.UIDHash]*podHistory{}, forcedPods: map[quota.UIDHash]bool{},
		workloads: newWorkloadTruths()}
}

// observe records a change and returns the pod's states before and after it; before is nil for a new pod.
func (t *cellHistory) observe(e *apiserverEvent) (line *podHistory, before *podState, after podState) {
	pod, ok := e.New.(*corev1.Pod)
	if !ok {
		return nil, nil, podState{}
	}
	t.recordForce(pod)
	line = t.pods[pod.UID]
	if line == nil {
		line = &podHistory{uid: pod.UID, name: pod.Name}
		t.pods[pod.UID], t.byHash[quota.HashUID(pod.UID)] = line, line
	}
	if n := len(line.states); n > 0 {
		state := line.states[n-1]
		before = &state
	}
	after = podState{version: e.Version, at: time.Now(), pod: pod, isDeleted: e.Type == watch.Deleted}
	line.states = append(line.states, after)
	return line, before, after
}

// at returns the pod's state at a version.
func (l *podHistory) at(version uint64) (podState, bool) {
	for i := len(l.states) - 1; i >= 0; i-- {
		if l.states[i].version <= version {
			return l.states[i], true
		}
	}
	return podState{}, false
}

func (l *podHistory) current() podState { return l.states[len(l.states)-1] }

// available counts a protector's available pods now.
func (t *cellHistory) available(p *watchedProtector, now time.Time) int {
	n := 0
	for _, line := range t.pods {
		if line.current().isAvailable(p, now) {
			n++
		}
	}
	return n
}

// availableAt counts them at a version of an era. goneSince counts those of them that do not exist any more or terminate, that did so in
// an earlier era from first on, or that have changed until the version list, which is that of a later live list; 0 is no list. If the era has ended, a live
// list is of the present one, in which a version says nothing about the order, so that each other state is a change.
// aged counts those that were available by their age: they may not have been seen alive since. A pod that ended before it was available by
// its age never was.
func (t *cellHistory) availableAt(p *watchedProtector, first, era int, version, list uint64, now time.Time, lenience time.Duration) (then, deletedSince,
	aged int) {
	for uid, line := range t.podsOf(era) {
		state, ok := line.at(version)
		if !ok || !state.isAvailable(p, now) {
			continue
		}
		if since := state.availableAfter(p); !since.IsZero() {
			if end, ended := line.lastEnding(); ended && end.version == state.version && end.when.Add(lenience).Before(since) {
				continue
			}
			aged++
		}
		then++
		listed, _ := line.at(max(version, list))
		current := t.pods[uid]
		if current != nil && era < t.restores {
			listed = current.current()
		}
		if current == nil || current.current().isGoneOrTerminating() || listed.pod != state.pod || t.hadEnded(uid, first, era) {
			deletedSince++
		}
	}
	return then, deletedSince, aged
}

// hadEnded reports whether a pod had gone in one of the eras from first to before last.
func (t *cellHistory) hadEnded(uid types.UID, first, last int) bool {
	for era := first; era < last; era++ {
		if line := t.podsOf(era)[uid]; line != nil && line.current().isGoneOrTerminating() {
			return true
		}
	}
	return false
}

func (t *cellHistory) podsOf(era int) map[types.UID]*podHistory {
	if era < t.restores {
		return t.podsBeforeRestores[era]
	}
	return t.pods
}

// countLosses counts the pods of a protector whose loss excuses a decision that saw the cell at a version. It leaves one reason out. A pod
// is missing once, no matter how often it was lost, and is not missing when it is available again.
func (t *cellHistory) countLosses(seen observedVersion, p *watchedProtector, decided uint64, now time.Time, exceptReason Excuse) int {
	lost := map[types.UID]bool{}
	for i := range t.losses {
		l := &t.losses[i]
		if uid := l.before.pod.UID; l.excuse != exceptReason && l.isExcuseFor(p, seen, decided, now) && !t.isAvailable(uid, p, now) {
			lost[uid] = true
		}
	}
	return len(lost)
}

func (t *cellHistory) isAvailable(uid types.UID, p *watchedProtector, now time.Time) bool {
	line := t.pods[uid]
	return line != nil && line.current().isAvailable(p, now)
}

// observedVersion is a version of a cell in one of its eras.
type observedVersion struct {
	restores int
	version  uint64
}

// recordLossEnd records in the losses of a pod when it was no longer ready.
func (t *cellHistory) recordLossEnd(uid types.UID, at time.Time) {
	for i := range t.losses {
		if l := &t.losses[i]; l.before.pod.UID == uid && l.notReadyAt.IsZero() {
			l.notReadyAt = at
		}
	}
}

// restore returns the cell to a version. It records the loss of each pod that existed before, and counts those that were ready and are
// not.
func (t *cellHistory) restore(version uint64) (lost int) {
	t.podsBeforeRestores = append(t.podsBeforeRestores, t.pods)
	t.restores++
	before := t.pods
	t.pods, t.byHash = map[types.UID]*podHistory{}, map[quota.UIDHash]*podHistory{}
	for uid, line := range before {
		kept := &podHistory{uid: uid, name: line.name}
		for _, state := range line.states {
			if state.version <= version {
				kept.states = append(kept.states, state)
			}
		}
		was, is := line.current(), podState{isDeleted: true}
		if len(kept.states) > 0 {
			is = kept.current()
		}
		if !was.isGoneOrTerminating() {
			t.losses = append(t.losses, loss{excuse: lossByRestore, restores: t.restores, before: was, after: is})
		}
		if was.isReady() && !is.isReady() {
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

package judge

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// floorHistories are the floors and the pending decreases of all protectors. The lock of the judge guards them.
type floorHistories struct {
	stalls *stalls
	// window is the window of the brake. skew is how much shorter it may be.
	window, skew time.Duration
	// protectors are those that have been in force, by key.
	protectors map[protectorKey]*floorHistory
	// maxProtectors is the highest number of protectors that a core had, by core.
	maxProtectors map[string]int
}

// floorHistory is the history of a protector, oldest first.
type floorHistory struct {
	// exists reports whether it is stored.
	exists   bool
	floors   []atVersion[int]
	pendings []atVersion[pendingState]
	// lost are the pending decreases that a restore undid.
	lost []pendingState
}

// atVersion is a value that holds from a version on.
type atVersion[T any] struct {
	version uint64
	at      time.Time
	value   T
}

// valueAt returns the value at a version.
func valueAt[T any](all []atVersion[T], version uint64) (value atVersion[T]) {
	for _, v := range all {
		if v.version <= version {
			value = v
		}
	}
	return value
}

func latest[T any](all []atVersion[T]) (value atVersion[T]) {
	if len(all) > 0 {
		value = all[len(all)-1]
	}
	return value
}

func valuesUntil[T any](all []atVersion[T], version uint64) []atVersion[T] {
	return slices.DeleteFunc(all, func(v atVersion[T]) bool { return v.version > version })
}

// of returns the history of a protector.
func (h *floorHistories) of(key protectorKey) *floorHistory {
	if h.protectors[key] == nil {
		h.protectors[key] = &floorHistory{}
	}
	return h.protectors[key]
}

// highest returns the highest floor of the window.
func (h *floorHistories) highest(truth *floorHistory) int {
	highest, from := 0, time.Now().Add(h.skew-h.window)
	for i, f := range truth.floors {
		if i+1 == len(truth.floors) || truth.floors[i+1].at.After(from) {
			highest = max(highest, f.value)
		}
	}
	return highest
}

// recordProtector adds a state of a protector.
func (h *floorHistories) recordProtector(truth *floorHistory, p *v1alpha1.PodProtector, floor int, e *apiserver.Event) {
	now := time.Now()
	truth.exists = e.Type != watch.Deleted
	if e.Old == nil { // another protector, or a recreated one
		truth.floors = nil
	}
	if len(truth.floors) == 0 || latest(truth.floors).value != floor {
		truth.floors = append(truth.floors, atVersion[int]{e.Version, now, floor})
	}
	state := pendingState{}
	if c := pendingOf(p); c != nil && e.Type != watch.Deleted {
		by, _ := writingProcess(e)
		state = pendingState{p.UID, true, c.Reason == v1alpha1.ReasonCascade, h.stalls.oldestObservedState(by, now)}
		for _, before := range slices.Backward(truth.pendings) {
			// A recreated protector has the record of the lost one.
			isRecreationUndone := string(before.value.uid) == p.Annotations[v1alpha1.AnnotationRestored]
			if before.value.isPending && (before.value.uid == p.UID || isRecreationUndone) {
				state.since = before.value.since
			}
			if before.value.isPending || !isRecreated(p) {
				break
			}
		}
		// Its keeper may remember a lost one that a restore has undone.
		for _, before := range truth.lost {
			if before.isPending && string(before.uid) == p.Annotations[v1alpha1.AnnotationRestored] && before.since.Before(state.since) {
				state.since = before.since
			}
		}
	}
	if before := latest(truth.pendings).value; before != state {
		truth.pendings = append(truth.pendings, atVersion[pendingState]{e.Version, now, state})
	}
}

// recordProtectorCount records how many protectors a core has.
func (h *floorHistories) recordProtectorCount(core string) {
	n := 0
	for key, truth := range h.protectors {
		if key.core == core && truth.exists {
			n++
		}
	}
	h.maxProtectors[core] = max(h.maxProtectors[core], n)
}

// isPendingSince reports whether a decrease of one protector that needs budget was pending at a version and ever since. A process may have seen the end of
// one that was pending with interruptions.
func (h *floorHistory) isPendingSince(version uint64) bool {
	seen := valueAt(h.pendings, version).value
	isPending := func(state pendingState) bool { return state.isPending && !state.cascade && state.uid == seen.uid }
	return isPending(seen) && !slices.ContainsFunc(h.pendings, func(later atVersion[pendingState]) bool {
		return later.version > version && !isPending(later.value)
	})
}

// pendingSince returns the last record of a decrease that was pending at a time or later.
func (h *floorHistories) pendingSince(uid types.UID, from time.Time) (key protectorKey, state atVersion[pendingState], ok bool) {
	for key, truth := range h.protectors {
		for i, p := range slices.Backward(truth.pendings) {
			if p.value.isPending && p.value.uid == uid && (i+1 == len(truth.pendings) || truth.pendings[i+1].at.After(from)) {
				return key, p, true
			}
		}
	}
	return key, state, false
}

// pendingState is the condition DecreasePending of a protector.
type pendingState struct {
	uid                types.UID
	isPending, cascade bool
	since              time.Time
}

// pendingOf returns the condition of a pending decrease; nil if none is pending. This is an independent implementation, not the code under
// test.
func pendingOf(p *v1alpha1.PodProtector) *metav1.Condition {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDecreasePending)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return c
}

func describePending(p *v1alpha1.PodProtector) string {
	if c := pendingOf(p); c != nil {
		return " " + c.Reason + ": " + c.Message
	}
	return " nothing is pending"
}

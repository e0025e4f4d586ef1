package chaos

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// incarnation is a part of a cell's history in which the revisions of its etcd only increased. Revisions of two incarnations cannot be
// compared: after a restore the same number can identify another change.
type incarnation struct {
	first  []revision
	later  []revision
	bounds func(revision int64) (earliest, latest time.Duration)
}

// restorePoint is the restore of an etcd between two incarnations. The old one was read after its API server had ended, and the new one is
// read from before its API server starts. So no change is missed or counts twice.
type restorePoint struct {
	// ended is a time after the last write to the old incarnation, began a time before the first write to the new one.
	ended, began time.Duration
	// drained is when every removal that was admitted by counts from before the restore has taken effect.
	drained time.Duration
}

// restoredPods are the removed pods of a cell that a restore brought back, with the time of the restore.
type restoredPods map[types.UID]time.Duration

// compose builds the truth of a cell from its incarnations. Changes that a restore makes are no removals:
//
//   - A pod that was not available when the old incarnation ended, and is available when the new one begins, was gained by the restore. A
//     removed pod that exists again gets another UID from then on: its next removal consumes budget again.
//   - A pod that was available at the end of the old incarnation and is not at the beginning of the new one was dropped. Like a pod that dies by
//     itself, it tightens the budget only when a snapshot shows it, and a removal that was admitted before that may still take effect.
//     So these drops are a truth of their own, which has no order relative to the cell's other changes. They may have happened at any
//     time from the end of the old incarnation until drained.
func compose(cell string, incarnations []incarnation, restores []restorePoint) ([]Truth, restoredPods) {
	revived := restoredPods{}
	truth, pods := replay(cell, incarnations[0].first, incarnations[0].later, incarnations[0].bounds)
	truths := []Truth{truth}
	for i, next := range incarnations[1:] {
		at, undone := restores[i], Truth{Cell: cell + ", undone"}
		for _, fact := range truths[0].Facts {
			if fact.Change == storm.Removed {
				revived[fact.UID] = at.ended
			}
		}
		gained, dropped := difference(pods, next.first)
		for _, pod := range gained {
			truths[0].Facts = append(truths[0].Facts, Fact{
				Change: storm.Gained, UID: revived.name(pod.UID), Pod: pod.Name, Earliest: at.ended, Latest: at.began,
			})
		}
		for _, pod := range dropped {
			undone.Facts = append(undone.Facts, Fact{
				Change: storm.Dropped, UID: pod.UID, Pod: pod.Name, Earliest: at.ended, Latest: at.drained,
			})
		}
		var later Truth
		later, pods = replay(cell, next.first, next.later, next.bounds)
		for _, fact := range later.Facts {
			fact.UID = revived.name(fact.UID)
			truths[0].Facts = append(truths[0].Facts, fact)
		}
		truths = append(truths, undone)
	}
	return truths, revived
}

// difference returns the pods that are available only after, and those that are available only before.
func difference(before map[string]*corev1.Pod, after []revision) (gained, dropped []*corev1.Pod) {
	availableBefore, availableAfter := map[types.UID]bool{}, map[types.UID]bool{}
	for _, pod := range before {
		if available(pod) {
			availableBefore[pod.UID] = true
		}
	}
	for _, r := range after {
		if available(r.Pod) {
			if availableAfter[r.Pod.UID] = true; !availableBefore[r.Pod.UID] {
				gained = append(gained, r.Pod)
			}
		}
	}
	for _, pod := range before {
		if available(pod) && !availableAfter[pod.UID] {
			dropped = append(dropped, pod)
		}
	}
	slices.SortFunc(dropped, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return gained, dropped
}

// name returns the UID of a pod since its last restore.
func (l restoredPods) name(uid types.UID) types.UID {
	if _, isRestored := l[uid]; isRestored {
		return uid + " again"
	}
	return uid
}

// rename changes the UID in requests that were sent after the restore of their pod. A request that was in flight at the restore met an API
// server that was killed, so no client saw it admitted.
func (l restoredPods) rename(cell string, requests []RemovalRequest) []RemovalRequest {
	for i, req := range requests {
		if since, isRestored := l[req.UID]; isRestored && req.Cell == cell && req.Sent >= since {
			requests[i].UID = l.name(req.UID)
		}
	}
	return requests
}

package chaos

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// incarnation is a part of a cell's history in which its etcd only moved forward. Revisions of two eras cannot be compared: after a restore the
// same number can stand for another change.
type incarnation struct {
	first  []revision
	later  []revision
	bounds func(revision int64) (earliest, latest time.Duration)
}

// restorePoint is the restore of an etcd between two eras. The whole old era was read when no API server ran any more, and the whole new era is
// read from before an API server ran again. So nothing is missed and nothing counts twice.
type restorePoint struct {
	// ended is when the old era could not be written to any more. began is when the new one could not be written to yet.
	ended, began time.Duration
	// drained is when every removal that was admitted by counts from before the restore has taken effect.
	drained time.Duration
}

// restoredPods are the removed pods of a cell that a restore brought back, with the time of the restore.
type restoredPods map[types.UID]time.Duration

// compose builds the truth of a cell from its eras. Changes that a restore makes at a seam are no removals:
//
//   - A pod that was not available when the old era ended, and is available when the new one begins, was gained at the seam. A pod that
//     had been removed and comes back has a new life from then on, with its own UID: its next removal takes budget again.
//   - A pod that was available at the end of the old era and is not at the beginning of the new one was dropped. Like a pod that dies by
//     itself, it tightens the budget only when a snapshot shows it, and a removal that was admitted before that may still take effect.
//     So these drops are a truth of their own, which has no order relative to the cell's other changes. They may have happened at any
//     time from the end of the old era until known.
func compose(cell string, eras []incarnation, seams []restorePoint) ([]Truth, restoredPods) {
	revived := restoredPods{}
	truth, pods := replay(cell, eras[0].first, eras[0].later, eras[0].bounds)
	truths := []Truth{truth}
	for i, next := range eras[1:] {
		at, undone := seams[i], Truth{Cell: cell + ", undone"}
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

// name returns the UID of a pod's newest life.
func (l restoredPods) name(uid types.UID) types.UID {
	if _, isRestored := l[uid]; isRestored {
		return uid + " again"
	}
	return uid
}

// rename renames asks for a pod that were made after it came back to its new life. An ask that was in flight at the restore met an API
// server that was killed, so no client saw it admitted.
func (l restoredPods) rename(cell string, requests []RemovalRequest) []RemovalRequest {
	for i, req := range requests {
		if since, isRestored := l[req.UID]; isRestored && req.Cell == cell && req.Sent >= since {
			requests[i].UID = l.name(req.UID)
		}
	}
	return requests
}

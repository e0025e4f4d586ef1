package simulation

import (
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// watchedProtector is a protector as the core stores it, and the history of its reservations.
type watchedProtector struct {
	core   string
	stored *v1alpha1.PodProtector
	// coveredSince is the version at which it began to cover its present pods.
	coveredSince uint64
	// coverageChanges are the changes of its coverage.
	coverageChanges []coverageChange
	// floorRaisedAt is the version at which its floor rose from zero. With a floor of zero nothing is reserved, so no conflict of a
	// compare-and-swap shows the new floor to a webhook that lags. The judge treats such a webhook as one that has not seen the protector.
	floorRaisedAt uint64
	// floors are its floors over time.
	floors []floorSince
	// decisions are the states that each reservation was decided on, by pod. decided are the floors of all decisions in their order.
	decisions     map[quota.UIDHash]decision
	decidedFloors []int
	// removedPods are the pods that were removed by their reservations.
	removedPods map[quota.UIDHash]bool
	// overduePods are the pods whose reservation of an update was dropped after the timeout.
	overduePods map[quota.UIDHash]bool
	// lostReservations are the pods whose reservation was lost in a restore of the core. restored is when the core was last restored.
	lostReservations map[quota.UIDHash]bool
	lastRestore      time.Time
	// restoredVersion is the version that the core continued with then.
	restoredVersion uint64
	// lastConfirmed is when it last had the annotation that releases workloads.
	lastConfirmed time.Time
	// lastCountedVersions are the versions at which the entry of each cell was last not discounted.
	lastCountedVersions map[string]uint64
	// lostAt is when it vanished without having been released. back is the version at which it was recreated; 0 until then.
	lostAt           time.Time
	recreatedVersion uint64
	// unseenBy are the processes that had not seen it when the core was last restored.
	unseenBy map[string]bool
}

// isLost reports whether it is in force although it is not stored.
func (w *watchedProtector) isLost() bool { return !w.lostAt.IsZero() && w.recreatedVersion == 0 }

// isUnseenBy reports whether a webhook could not know it: its watch has not shown it, or it started when the protector did not exist, or
// a restore of the core undid the protector before that.
func (w *watchedProtector) isUnseenBy(r *removal) bool {
	seenVersion := r.seenVersions[w.core]
	if !w.lostAt.IsZero() && (w.recreatedVersion == 0 || seenVersion < w.recreatedVersion) && (r.webhookStart.After(w.lostAt) || w.unseenBy[r.webhook]) {
		return true
	}
	return seenVersion < max(w.coveredSince, w.floorRaisedAt)
}

// isWithoutStatus reports whether it was recreated after it had reserved a pod, and does not have its status yet. Until then it admits
// nothing.
func (w *watchedProtector) isWithoutStatus(pod quota.UIDHash) bool {
	decided, reserved := w.decisions[pod]
	return quota.IsRestorePending(w.stored) && reserved && !decided.at.After(w.lostAt)
}

func newWatched(core string) *watchedProtector {
	return &watchedProtector{
		core: core, decisions: map[quota.UIDHash]decision{}, lostReservations: map[quota.UIDHash]bool{}, removedPods: map[quota.UIDHash]bool{},
		lastCountedVersions: map[string]uint64{}, overduePods: map[quota.UIDHash]bool{},
	}
}

type floorSince struct {
	at    time.Time
	floor int
}

type decision struct {
	at          time.Time
	version     uint64
	countedSpec string
	// floor is the floor of the version that it was made on. nth is its position among the decisions on the protector.
	floor, position int
	// isForced reports whether it was admitted only because of an annotation of the pod.
	isForced bool
	// isRestored reports whether a restore of the core brought the reservation back, at the time of the decision.
	isRestored bool
	// isBlindToRestore reports whether it was decided by counts of a lost history that the webhook could not recognize as such.
	isBlindToRestore bool
	// snapshots are the snapshots of the cells that were summed.
	snapshots map[string]observedVersion
	// firstCharge is the first of the decisions on the reservation, if it was renewed.
	firstCharge charge
}

// charge is when a removal was charged, and by which snapshots.
type charge struct {
	at              time.Time
	version         uint64
	floor, position int
	snapshots       map[string]observedVersion
}

func (w *watchedProtector) name() string { return w.core + "/" + w.stored.Name }

// recordCoreEvent judges a change in a core cluster.
func (j *judge) recordCoreEvent(core string, e *apiserver.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.decreases.recordCoreEvent(core, e)
	switch object := e.New.(type) {
	case *v1alpha1.Cell:
		j.recordCellObject(core, object, e)
		j.recordLeadership(core, object)
		j.judgeSlotMoves(core, object, e)
	case *coordinationv1.Lease:
		j.recordShardLease(core, object, e)
	case *eventsv1.Event:
		j.recordReleaseEvent(core, object)
	}
	if isSource(e.New) {
		j.recordSource(core, e)
	}
	p, ok := e.New.(*v1alpha1.PodProtector)
	if !ok {
		return
	}
	j.counts.Writes++
	key := protectorKey{core, client.ObjectKeyFromObject(p)}
	if e.Type == watch.Deleted {
		j.trace.add("%s: protector %s is gone by %s", core, p.Name, writerOrSimulator(e.By))
		j.recordProtectorEnd(key, e)
		return
	}
	w := j.protectors[key]
	if w == nil || w.isLost() && !isRecreated(p) {
		w = newWatched(core)
		j.protectors[key] = w
	}
	old, _ := e.Old.(*v1alpha1.PodProtector)
	if isRecreated(p) && (old == nil || quota.IsRestorePending(old)) {
		j.judgeRecreation(w, p, e)
		return
	}
	j.trace.add("%s: protector %s by %s: %s", core, p.Name, writerOrSimulator(e.By), describeStatus(p))
	if old == nil || quota.CountedSpec(&old.Spec) != quota.CountedSpec(&p.Spec) {
		j.liveness.coverageChangedAt[key] = time.Now()
	}
	w.setStored(p, old, e.Version)
	j.judgeStatus(w, old, e)
}

// recordLeadership records in which era of its cell a leadership began: its snapshot is from that era or a later one.
func (j *judge) recordLeadership(core string, cell *v1alpha1.Cell) {
	key := core + "/" + cell.Name
	if j.epochRestores[key] == nil {
		j.epochRestores[key] = map[int64]int{}
	}
	if _, ok := j.epochRestores[key][cell.Status.Aggregator.Epoch]; !ok {
		j.epochRestores[key][cell.Status.Aggregator.Epoch] = j.cells[cell.Name].restores
		j.cells[cell.Name].workloads.leadershipStarts[leadershipKey{core, cell.Status.Aggregator.Epoch}] = time.Now()
	}
}

// earliestRestores returns the earliest era that a snapshot of an epoch can be from.
func (j *judge) earliestRestores(core, cell string, epoch int64) int {
	return j.epochRestores[core+"/"+cell][epoch]
}

// setStored makes p the stored state.
func (w *watchedProtector) setStored(p, old *v1alpha1.PodProtector, version uint64) {
	w.stored = p
	w.recordConfirmation(old)
	if old == nil || quota.CountedSpec(&old.Spec) != quota.CountedSpec(&p.Spec) {
		w.coveredSince = version
		w.recordCoverageChange(old, version)
	}
	w.recordCountedCells()
	if old != nil && floorOf(old) == 0 && floorOf(p) > 0 {
		w.floorRaisedAt = version
	}
	if floor := w.effectiveFloor(); len(w.floors) == 0 || w.floors[len(w.floors)-1].floor != floor {
		w.floors = append(w.floors, floorSince{at: time.Now(), floor: floor})
	}
}

func describeStatus(p *v1alpha1.PodProtector) string {
	var parts []string
	for i := range p.Status.Cells {
		c := &p.Status.Cells[i]
		var pods []string
		for r := range quota.Reservations(&c.AdmissionHistory) {
			if r.PodName == "" {
				r.PodName = fmt.Sprintf("%x", uint64(r.Hash)>>48)
			}
			pods = append(pods, r.PodName)
		}
		counted := fmt.Sprintf("%d available", c.Aggregation.CountedReplicas)
		if c.Aggregation.Void {
			counted = "void"
		}
		parts = append(parts, fmt.Sprintf("%s %s at %s (epoch %d of %s), reserved %v",
			c.CellID, counted, c.Aggregation.SnapshotVersion, c.Aggregation.Epoch, c.Aggregation.TermVersion, pods))
	}
	return fmt.Sprintf("floor %d; %s", floorOf(p), strings.Join(parts, "; "))
}

package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// watchedProtector is a protector as the core stores it, and the history of its reservations.
type watchedProtector struct {
	core   string
	stored *v1alpha1.PodProtector
	// podCells are the cells of all pods.
	podCells map[types.UID]string
	// coveredSince is the version at which it began to cover its present pods.
	coveredSince uint64
	// coverage is which pods it covered over time.
	coverage coverageHistory
	// floorRaisedAt is the version at which its floor rose from zero. With a floor of zero nothing is reserved, so no conflict of a
	// compare-and-swap shows the new floor to a webhook that lags. The judge treats such a webhook as one that has not seen the protector.
	floorRaisedAt uint64
	// floors are its floors over time.
	floors effectiveFloors
	// reservations are what its reservations were decided on, and what became of them.
	reservations reservationHistory
	// escrows are what was reserved in advance.
	escrows escrowHistory
	// lostReservations are the pods whose reservation was lost in a restore of the core. lastRestore is when the core was last restored.
	lostReservations map[quota.UIDHash]bool
	lastRestore      time.Time
	// restoredVersion is the version that the core continued with then.
	restoredVersion uint64
	// lastConfirmed is when it last had the annotation that releases workloads.
	lastConfirmed time.Time
	// lastCountedVersions are the versions at which the entry of each cell was last not discounted.
	lastCountedVersions map[string]uint64
	// lostAt and lostVersion are when it vanished without having been released. recreatedVersion is the version at which it was recreated; 0 until then.
	lostAt                        time.Time
	lostVersion, recreatedVersion uint64
	// unseenBy are the processes that had not seen it when the core was last restored.
	unseenBy map[string]bool
}

// isLost reports whether it is in force although it is not stored.
func (w *watchedProtector) isLost() bool { return !w.lostAt.IsZero() && w.recreatedVersion == 0 }

// isUnseenBy reports whether a webhook could not know it: its watch has not shown it, or it started when the protector did not exist, or
// a restore of the core undid the protector before that, or the webhook listed the protectors again after this one had vanished.
func (w *watchedProtector) isUnseenBy(r *Removal) bool {
	seenVersion, coveredSince := r.SeenVersions[w.core], max(w.coveredSince, w.floorRaisedAt)
	if !w.lostAt.IsZero() && (w.recreatedVersion == 0 || seenVersion < w.recreatedVersion) {
		isSkipped := func(s apiserver.Skip) bool {
			return s.After < coveredSince && coveredSince <= w.lostVersion && w.lostVersion <= s.To
		}
		if r.WebhookStart.After(w.lostAt) || w.unseenBy[r.Webhook] || slices.ContainsFunc(r.Skips[w.core], isSkipped) {
			return true
		}
	}
	return seenVersion < coveredSince
}

// isWithoutStatus reports whether it was recreated after it had reserved a pod, and does not have its status yet. Until then it admits
// nothing.
func (w *watchedProtector) isWithoutStatus(pod quota.UIDHash) bool {
	decided, reserved := w.reservations.decisions[pod]
	return quota.IsRestorePending(w.stored) && reserved && !decided.at.After(w.lostAt)
}

func newWatched(core string) *watchedProtector {
	return &watchedProtector{
		core: core, reservations: newReservationHistory(), escrows: newEscrowHistory(),
		lostReservations: map[quota.UIDHash]bool{}, lastCountedVersions: map[string]uint64{},
	}
}

func (w *watchedProtector) name() string { return w.core + "/" + w.stored.Name }

// setStored makes p the stored state.
func (w *watchedProtector) setStored(p, old *v1alpha1.PodProtector, version uint64) {
	w.stored = p
	w.recordConfirmation(old)
	if hasOtherCoverage(old, p) {
		w.coveredSince = version
		w.coverage.record(old, version)
	}
	w.coverage.recordCountedCells(w.stored)
	before, known := w.floors.last()
	w.floors.record(w.effectiveFloor())
	if after, _ := w.floors.last(); known && before == 0 && after > 0 {
		w.floorRaisedAt = version
	}
}

// hasOtherCoverage reports whether two states of a protector cover different pods; old is nil for a new protector.
func hasOtherCoverage(old, p *v1alpha1.PodProtector) bool {
	return old == nil || quota.CountedSpec(&old.Spec) != quota.CountedSpec(&p.Spec) || !maps.Equal(targetSelectors(old), targetSelectors(p))
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
		for _, escrow := range c.AdmissionHistory.Escrows {
			_, replica, _ := strings.Cut(escrow.Holder, "@") // the rest is random
			pods = append(pods, fmt.Sprintf("%d in advance by %s (%d)", escrow.Count, replica, escrow.Stamp))
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

// coverageHistory is which pods a protector covered over time. Its last change is open: it is the present coverage.
type coverageHistory struct {
	changes []coverageChange
	// hadChanged reports that it had changed before a restore of the core brought the protector back in place of another one. That is all that is
	// known of these changes.
	hadChanged bool
}

// coverageChange is the end of a period in which a protector covered the same pods.
type coverageChange struct {
	version uint64
	at      time.Time
	// before is the protector of the period that ended. countedCells are the cells that counted by its coverage at some time.
	before       *v1alpha1.PodProtector
	countedCells map[string]bool
}

// record records a change of the coverage; old is nil for a new protector.
func (h *coverageHistory) record(old *v1alpha1.PodProtector, version uint64) {
	if old != nil && len(h.changes) > 0 {
		last := &h.changes[len(h.changes)-1]
		last.version, last.at, last.before = version, time.Now(), old
	}
	h.changes = append(h.changes, coverageChange{countedCells: map[string]bool{}})
}

// recordCountedCells records which cells have counted by the present coverage.
func (h *coverageHistory) recordCountedCells(stored *v1alpha1.PodProtector) {
	if len(h.changes) == 0 {
		return
	}
	for i := range stored.Status.Cells {
		if cell := &stored.Status.Cells[i]; !cell.Aggregation.Void && cell.Aggregation.CountedSpec == quota.CountedSpec(&stored.Spec) {
			h.changes[len(h.changes)-1].countedCells[cell.CellID] = true
		}
	}
}

// hasChangedSince reports whether the coverage has changed since a version, even if it is the same again.
func (h *coverageHistory) hasChangedSince(version uint64) bool {
	return slices.ContainsFunc(h.changes, func(c coverageChange) bool { return c.before != nil && c.version > version })
}

// mayBeInTransition reports whether an aggregator may restrict its counts because there was a change. The judge checks the end of the
// transition in the calm, when the counts must be true.
func (h *coverageHistory) mayBeInTransition() bool {
	return h.hadChanged || slices.ContainsFunc(h.changes, func(c coverageChange) bool { return c.before != nil })
}

// coverageSeenBy returns the end of the period whose coverage the webhook of a removal knew. It returns nil if that is the present period, or if
// the webhook is excused.
func (w *watchedProtector) coverageSeenBy(r *Removal) *coverageChange {
	seenVersion := r.SeenVersions[w.core]
	if !w.lostAt.IsZero() || !w.lastRestore.IsZero() || seenVersion < w.floorRaisedAt {
		return nil
	}
	for i := range w.coverage.changes {
		if c := &w.coverage.changes[i]; c.before != nil && c.version > seenVersion {
			return c
		}
	}
	return nil
}

// isUnchargedByEarlierSpec reports whether an earlier spec, by which a removal was admitted, does not count the pod.
func (w *watchedProtector) isUnchargedByEarlierSpec(r *Removal, pod podState, now time.Time) bool {
	known := w.coverageSeenBy(r)
	return known != nil && !pod.isAvailable(&watchedProtector{stored: known.before, podCells: w.podCells}, now)
}

// isExcludedFromCounts reports whether the counts must have left out the pod of an unreserved removal at the time that it takes effect. Three
// conditions hold then. The webhook that admitted it used an earlier spec that did not count the pod. The cell was counted by that spec.
// The admission deadline has not passed since that spec was changed. Then the removal excuses no other removal.
func (w *watchedProtector) isExcludedFromCounts(r *Removal, cell string, pod podState, now time.Time) bool {
	known := w.coverageSeenBy(r)
	return known != nil && known.countedCells[cell] && time.Since(known.at) < scenario.AdmissionDeadline && w.isUnchargedByEarlierSpec(r, pod, now)
}

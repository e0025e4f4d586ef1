package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
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
func (w *watchedProtector) isUnseenBy(r *removal) bool {
	seenVersion, coveredSince := r.seenVersions[w.core], max(w.coveredSince, w.floorRaisedAt)
	if !w.lostAt.IsZero() && (w.recreatedVersion == 0 || seenVersion < w.recreatedVersion) {
		isSkipped := func(s apiserver.Skip) bool {
			return s.After < coveredSince && coveredSince <= w.lostVersion && w.lostVersion <= s.To
		}
		if r.webhookStart.After(w.lostAt) || w.unseenBy[r.webhook] || slices.ContainsFunc(r.skips[w.core], isSkipped) {
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
		core: core, reservations: newReservationHistory(), lostReservations: map[quota.UIDHash]bool{}, lastCountedVersions: map[string]uint64{},
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
	if old != nil && floorOf(old) == 0 && floorOf(p) > 0 {
		w.floorRaisedAt = version
	}
	w.floors.record(w.effectiveFloor())
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
		counted := fmt.Sprintf("%d available", c.Aggregation.CountedReplicas)
		if c.Aggregation.Void {
			counted = "void"
		}
		parts = append(parts, fmt.Sprintf("%s %s at %s (epoch %d of %s), reserved %v",
			c.CellID, counted, c.Aggregation.SnapshotVersion, c.Aggregation.Epoch, c.Aggregation.TermVersion, pods))
	}
	return fmt.Sprintf("floor %d; %s", floorOf(p), strings.Join(parts, "; "))
}

package simulation

import (
	"math/rand/v2"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// drawCoverageChanges adds, in a tenth of the seeds, users who change what a protector covers, by its selector and minReadySeconds, in the
// middle of bursts whose requests hang.
func drawCoverageChanges(s *Scenario, r *rand.Rand) {
	if r.IntN(10) == 0 {
		addCoverageChanges(s, r)
	}
}

// DrawCoverageChanges is Draw with such changes in every seed.
func DrawCoverageChanges(seed uint64) Scenario {
	s := Draw(seed)
	addCoverageChanges(&s, newRand(seed, 0x776964656e21))
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s
}

func addCoverageChanges(s *Scenario, r *rand.Rand) {
	core, who := r.IntN(s.Cores), r.IntN(16)
	begin := time.Duration(r.Int64N(int64(stormTime / 2)))
	for range 1 + r.IntN(2) {
		// Pods of a tier that is not covered at first.
		for range 2 + r.IntN(3) {
			s.Steps = append(s.Steps, Step{
				At: begin + time.Duration(r.IntN(1000))*time.Millisecond, What: Relabel, Cell: r.IntN(s.Workers), Who: r.IntN(16), N: 1,
			})
		}
		s.Steps = append(s.Steps, Step{At: begin, What: Widen, Core: core, Who: who, N: r.IntN(len(coverages()))})
		change := begin + time.Duration(4000+r.IntN(4000))*time.Millisecond
		for i := range 6 + r.IntN(16) {
			step := Step{
				At: change + time.Duration(r.IntN(7000)-2500)*time.Millisecond, What: []StepKind{Delete, Delete, Delete, Evict}[r.IntN(4)],
				Cell: r.IntN(s.Workers), Who: r.IntN(16), For: time.Second,
			}
			if i%2 == 0 {
				step.Stuck = time.Duration(r.Int64N(int64(requestLimit)))
			}
			s.Steps = append(s.Steps, step)
		}
		s.Steps = append(s.Steps, Step{At: change, What: Widen, Core: core, Who: who, N: r.IntN(len(coverages()))})
		begin = change + time.Duration(r.IntN(12000))*time.Millisecond
	}
	if r.IntN(3) == 0 {
		s.Steps = append(s.Steps, Step{At: begin, What: KillAggregator, Who: r.IntN(16), For: time.Duration(100+r.IntN(3000)) * time.Millisecond})
	}
}

// changesCoverage reports whether the coverage of a protector changes, and with it minReadySeconds.
func (s Scenario) changesCoverage() bool {
	return slices.ContainsFunc(s.Steps, func(step Step) bool { return step.What == Widen })
}

// coverages returns what a protector can cover.
func coverages() []v1alpha1.PodProtectorSpec {
	var all []v1alpha1.PodProtectorSpec
	for _, labels := range []map[string]string{{"app": "x"}, {"tier": "x"}, {"app": "y"}, {"app": "x", "tier": "x"}} {
		for _, minReady := range []int32{0, 0, 3} {
			all = append(all, v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{MatchLabels: labels}, MinReadySeconds: minReady})
		}
	}
	return all
}

// changeCoverage changes what a protector covers. The generator owns a generated protector.
func (us *protectorUsers) changeCoverage(s Step) {
	core := us.env.core(s)
	p, ok := pick(core.protectors(), s.Who)
	if !ok || p.Labels != nil || p.Spec.TargetRef != nil {
		return
	}
	_, _ = core.store.Update("podprotectors", client.ObjectKeyFromObject(p), "", "user", func(o client.Object) error {
		if p, ok := o.(*v1alpha1.PodProtector); ok {
			next := coverages()[s.N%len(coverages())]
			p.Spec.Selector, p.Spec.MinReadySeconds = next.Selector, next.MinReadySeconds
			p.Generation++
		}
		return nil
	})
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
func (w *watchedProtector) coverageSeenBy(r *removal) *coverageChange {
	seenVersion := r.seenVersions[w.core]
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
func (w *watchedProtector) isUnchargedByEarlierSpec(r *removal, pod podState, now time.Time) bool {
	known := w.coverageSeenBy(r)
	return known != nil && !pod.isAvailable(&watchedProtector{stored: known.before, podCells: w.podCells}, now)
}

// isExcludedFromCounts reports whether the counts must have left out the pod of an unreserved removal at the time that it takes effect. Three
// conditions hold then. The webhook that admitted it used an earlier spec that did not count the pod. The cell was counted by that spec.
// The admission deadline has not passed since that spec was changed. Then the removal excuses no other removal.
func (w *watchedProtector) isExcludedFromCounts(r *removal, cell string, pod podState, now time.Time) bool {
	known := w.coverageSeenBy(r)
	return known != nil && known.countedCells[cell] && time.Since(known.at) < admissionDeadline && w.isUnchargedByEarlierSpec(r, pod, now)
}

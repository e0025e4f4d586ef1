package simulation

import (
	"math/rand/v2"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// drawWidenings is users who change what a protector covers, by its selector and minReadySeconds, in the midst of bursts that take long. It is
// drawn for a tenth of the seeds.
func (s *Scenario) drawWidenings(r *rand.Rand) {
	if r.IntN(10) == 0 {
		s.addWidenings(r)
	}
}

// DrawWidened is Draw with such changes in every seed.
func DrawWidened(seed uint64) Scenario {
	s := Draw(seed)
	s.addWidenings(randOf(seed, 0x776964656e21))
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s
}

func (s *Scenario) addWidenings(r *rand.Rand) {
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
				At: change + time.Duration(r.IntN(7000)-2500)*time.Millisecond, What: []What{Delete, Delete, Delete, Evict}[r.IntN(4)],
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

// isWidened reports whether what a protector covers changes, and with it minReadySeconds.
func (s Scenario) isWidened() bool {
	return slices.ContainsFunc(s.Steps, func(step Step) bool { return step.What == Widen })
}

// coverages are what a protector can cover.
func coverages() []v1alpha1.PodProtectorSpec {
	var all []v1alpha1.PodProtectorSpec
	for _, labels := range []map[string]string{{"app": "x"}, {"tier": "x"}, {"app": "y"}, {"app": "x", "tier": "x"}} {
		for _, minReady := range []int32{0, 0, 3} {
			all = append(all, v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{MatchLabels: labels}, MinReadySeconds: minReady})
		}
	}
	return all
}

// widen changes what a protector covers; a generated one is the generator's.
func (w *world) widen(s Step) {
	core := w.cores[s.Core%len(w.cores)]
	p, ok := pick(core.protectors(), s.Who)
	if !ok || p.Labels != nil {
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

// coverageChange is the end of a time in which a protector covered what it did.
type coverageChange struct {
	version uint64
	at      time.Time
	// before is the protector of the time that ended, and heard the cells whose counts were of it at some time.
	before *v1alpha1.PodProtector
	heard  map[string]bool
}

// change notes a change of what is covered; old is nil of a new protector.
func (w *watched) change(old *v1alpha1.PodProtector, version uint64) {
	if old != nil && len(w.changes) > 0 {
		last := &w.changes[len(w.changes)-1]
		last.version, last.at, last.before = version, time.Now(), old
	}
	w.changes = append(w.changes, coverageChange{heard: map[string]bool{}})
}

// hear notes which cells have counted by what is covered now.
func (w *watched) hear() {
	if len(w.changes) == 0 {
		return
	}
	for i := range w.stored.Status.Cells {
		if cell := &w.stored.Status.Cells[i]; !cell.Aggregation.Void && cell.Aggregation.CountedSpec == quota.CountedSpec(&w.stored.Spec) {
			w.changes[len(w.changes)-1].heard[cell.CellID] = true
		}
	}
}

// hasChangedSince reports whether what is covered has changed since a version, even if it is the same again.
func (w *watched) hasChangedSince(version uint64) bool {
	return slices.ContainsFunc(w.changes, func(c coverageChange) bool { return c.before != nil && c.version > version })
}

// mayBeInTransition reports whether an aggregator may restrict its counts: there was a change. How long it
// does is judged when all is calm, by the counts that must be true then.
func (w *watched) mayBeInTransition() bool {
	return slices.ContainsFunc(w.changes, func(c coverageChange) bool { return c.before != nil })
}

// knownBy is the end of the time whose coverage the webhook knew that a removal asked; nil if that is the present one, or if the webhook is excused.
func (w *watched) knownBy(r *removal) *coverageChange {
	knew := r.knew[w.core]
	if !w.lost.IsZero() || !w.restored.IsZero() || knew < w.guards {
		return nil
	}
	for i := range w.changes {
		if c := &w.changes[i]; c.before != nil && c.version > knew {
			return c
		}
	}
	return nil
}

// isUncharged reports whether an earlier spec, by which a removal was admitted, does not count the pod.
func (w *watched) isUncharged(r *removal, pod podState, now time.Time) bool {
	known := w.knownBy(r)
	return known != nil && !pod.available(&watched{stored: known.before}, now)
}

// isSpokenFor reports whether the counts must have left out the pod of a removal that nothing reserved, at the time that it takes effect: the
// webhook that admitted it knew an earlier spec that the cell was counted by and that did not count the pod, and the admission deadline has not
// passed since that spec was changed. Then the removal is no excuse for any other.
func (w *watched) isSpokenFor(r *removal, cell string, pod podState, now time.Time) bool {
	known := w.knownBy(r)
	return known != nil && known.heard[cell] && time.Since(known.at) < admissionDeadline && w.isUncharged(r, pod, now)
}

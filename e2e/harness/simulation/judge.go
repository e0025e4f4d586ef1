package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

type apiserverEvent = apiserver.Event

// judge watches every change of every store and reports when the promise is broken. It has the true state of all clusters at every
// instant, and trusts no status.
type judge struct {
	mu    sync.Mutex
	began time.Time
	cells map[string]*truth
	// protectors are the stored ones by core and name.
	protectors map[protectorKey]*watched
	// open are the admitted requests that may still take effect, by cell and pod, with the times of their reviews.
	open map[openKey]map[*removal]time.Time
	// asked are the pods whose removal a client has requested, other than as a dry run.
	asked map[openKey]bool
	// effecting is the removal that is about to change the store, by cell.
	effecting map[string]*removal
	// epochs are the eras in which the leaderships of each cell began, by core and cell, then by epoch.
	epochs map[string]map[int64]int
	// leases are the holders of the Leases of shards by core and name. leaseOf is when each holder took its Lease. givenUp is when an
	// incarnation of a holder gave a slot up.
	leases  map[string]string
	leaseOf map[string]time.Time
	givenUp map[slotOf]time.Time
	// sources are the Deployments, by their protectors.
	sources map[protectorKey]*sourceTruth
	// decreases judges large decreases of floors.
	decreases *decreases
	// liveness judges denials in the storm.
	liveness *liveness
	// topology has the Cells, by core and name.
	topology map[string]*cellTruth
	// notes are the release Events that a generator wrote for a protector that it was about to release.
	notes map[string]bool
	// beginOf is the start time of the current process of each name.
	beginOf map[string]time.Time
	// lenience is the maximum difference between clocks.
	lenience time.Duration

	failures []string
	counts   Counts
	trace    *Trace
}

// Counts count what happened in a simulation.
type Counts struct {
	Removals, Admitted, Refused, Effective, Writes, Races, Losses int
	// Usable counts answers in the storm that must not deny for lack of budget.
	Usable int
	// Moves counts writes by which a shard took slots.
	Moves int
	// Excused counts for each loosening of the judge how often it alone prevented a failure (judge_excuses.go).
	Excused Excused
	// Decreases counts large decreases of floors that took effect within the limit. Confirmed counts those that were confirmed.
	Decreases, Confirmed int
	// Relabels counts those that took an available pod out of coverage.
	Relabels int
	// Restarts counts those by updates of available pods.
	Restarts int
	// Forced counts removals that took effect below the floor because their pods have the force-delete annotation.
	Forced int
}

// Add adds other counts.
func (c *Counts) Add(other Counts) {
	c.Removals += other.Removals
	c.Admitted += other.Admitted
	c.Refused += other.Refused
	c.Effective += other.Effective
	c.Writes += other.Writes
	c.Races += other.Races
	c.Losses += other.Losses
	c.Usable += other.Usable
	c.Moves += other.Moves
	c.Decreases += other.Decreases
	c.Confirmed += other.Confirmed
	c.Relabels += other.Relabels
	c.Restarts += other.Restarts
	c.Forced += other.Forced
	c.Excused.add(other.Excused)
}

type protectorKey struct {
	core string
	name types.NamespacedName
}

type openKey struct {
	cell string
	uid  types.UID
}

func newJudge(s Scenario, trace *Trace) *judge {
	j := &judge{
		began: time.Now(), cells: map[string]*truth{}, protectors: map[protectorKey]*watched{}, open: map[openKey]map[*removal]time.Time{}, asked: map[openKey]bool{},
		effecting: map[string]*removal{}, epochs: map[string]map[int64]int{}, sources: map[protectorKey]*sourceTruth{}, notes: map[string]bool{},
		leases: map[string]string{}, leaseOf: map[string]time.Time{}, givenUp: map[slotOf]time.Time{},
		beginOf: map[string]time.Time{}, topology: map[string]*cellTruth{},
		trace: trace,
	}
	j.counts.Excused = Excused{}
	j.liveness = newLiveness(s.Storm)
	j.decreases = newDecreases(s, j.fail, &j.counts)
	j.decreases.cascadeOf = func(protector protectorKey) time.Time { return j.sourceOf(protector).now().cascade }
	return j
}

// fail records that the promise was broken.
func (j *judge) fail(format string, arguments ...any) {
	text := fmt.Sprintf(format, arguments...)
	j.failures = append(j.failures, text)
	j.trace.add("FAILURE: %s", text)
}

// cellChanged judges a change in a worker cluster.
func (j *judge) cellChanged(cell string, e *apiserver.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.cells[cell]
	t.workloads.observe(e)
	if e.Kind.Kind != "Pod" {
		return
	}
	line, before, after := t.observe(e)
	j.trace.add("%s: pod %s %s by %s: %s", cell, line.name, strings.ToLower(string(e.Type)), orWorld(e.By), describe(after))
	if before == nil || before.over() {
		return
	}
	if !after.ready() {
		t.ends(line.uid, time.Now().Add(j.lenience))
	}
	r := j.effecting[cell]
	byRemoval := r != nil && e.By == removalActor(r)
	if !byRemoval {
		j.lost(t, *before, after, e.Version)
		return
	}
	j.counts.Effective++
	for _, key := range j.sortedProtectors() {
		w := j.protectors[key]
		if r.relabel != nil && !j.isLeaving(t, w, r, *before, e.Version) || r.change != nil && !j.isRestarting(t, w, r, *before, line) {
			continue
		}
		j.judgeEffect(w, r, cell, line, *before, e.Version)
	}
}

func orWorld(by string) string {
	if by == "" {
		return "the world"
	}
	return by
}

func describe(s podState) string {
	status, _ := s.isReady()
	switch {
	case s.gone:
		return "gone"
	case s.over():
		return "terminating"
	default:
		return fmt.Sprintf("%s, ready %q, %v", s.pod.Status.Phase, status, s.pod.Labels)
	}
}

// lost records a change of a pod that no client requested. It is a loss for each protector that counted the pod before and not after.
func (j *judge) lost(t *truth, before, after podState, version uint64) {
	if before.ready() && (!after.ready() || !maps.Equal(before.pod.Labels, after.pod.Labels)) {
		j.counts.Losses++
	}
	t.losses = append(t.losses, loss{why: lossByItself, era: t.era, version: version, before: before, after: after})
}

func (j *judge) sortedProtectors() []protectorKey {
	return slices.SortedFunc(maps.Keys(j.protectors), func(a, b protectorKey) int {
		return strings.Compare(a.core+a.name.String(), b.core+b.name.String())
	})
}

// judgeEffect checks the promise itself: the floor must hold when an admitted removal has taken effect.
func (j *judge) judgeEffect(w *watched, r *removal, cellID string, line *lifeline, before podState, version uint64) {
	t, now := j.cells[cellID], time.Now().Add(j.lenience)
	if !before.available(w, now) {
		return
	}
	made, reserved := w.decisions[quota.HashUID(line.uid)]
	charged := r.reviewed != nil && j.wasCharged(w, r, line.states[:len(line.states)-1])
	floor := w.floorFor(made.floor, made.nth)
	available := 0
	counts := func(cell string) bool { return w.countsFor(cell, cellID, made.charged) }
	for name, cell := range j.cells {
		if counts(name) {
			available += cell.available(w, now)
		}
	}
	// The loss applies to this protector alone: another protector may have reserved the removal, and the loss must not excuse it as well.
	lost := func(why Reason) {
		t.losses = append(t.losses, loss{why: why, era: t.era, version: version, before: before, after: line.now(), only: w})
	}
	switch {
	case !reserved && !w.covers(before.pod):
		lost(lossUncovered) // it counts, but is not protected
		return
	case (!reserved || made.seen[cellID].era < r.era || made.restored && !r.asked.After(made.at)) && !charged:
		// "The readiness race": the pod was not available when it was reviewed. A reservation from before the restore of the cell was for
		// another removal, since none outlives a restore. So was a reservation that a restore of the core brought back: a decision in the
		// lost time may have been made without it.
		j.counts.Races++
		lost(lossByRace)
		return
	case !reserved:
		if why := j.judgeUnreserved(w, r, cellID, line, before, now); why != "" {
			lost(why)
		}
		return
	case made.countedSpec != quota.CountedSpec(&w.stored.Spec) || w.hasChangedSince(made.version):
		return // the decision promised nothing about the pods that count now; the pod stays reserved for later decisions
	}
	w.effected[quota.HashUID(line.uid)] = r.relabel == nil && r.change == nil && !w.waived(r.asked) && (charged || r.reviewed == nil)
	if made.overdrawn || r.overrode != "" && t.isForced(quota.HashUID(line.uid)) {
		j.counts.Forced++
		lost(lossForced)
		t.losses[len(t.losses)-1].until = made.charged.version
		return
	}
	excused := j.excusedBy(w, made, counts, now, floor-available)
	switch {
	case available+excused >= floor:
	case made.blind:
		j.excuse(excuseBlind)
		lost(lossBlind)
		return
	default:
		j.fail("over-admission: removal %s of %s left %d pods of protector %s available (and %d lost by themselves); the floor is %d",
			r.id, line.name, available, w.name(), excused, floor)
	}
	j.judgeLosses(w, r, cellID, line, made.charged, now)
}

// judgeUnreserved judges an effect that was never reserved. It returns why other decisions lose the pod; "" if they do not.
func (j *judge) judgeUnreserved(w *watched, r *removal, cellID string, line *lifeline, before podState, now time.Time) Reason {
	switch {
	case j.isOwed(cellID, line, r.overrode):
		j.excuse(excuseOwed)
		return lossForced
	case r.change != nil && w.overdue[quota.HashUID(line.uid)]:
		j.excuse(excuseOverdue)
		return lossOverdue
	case w.isSpokenFor(r, cellID, before, now):
		return "" // it was admitted by an earlier spec, and the pod must not have been counted by this one yet
	case w.isUnheardOf(r):
		j.excuse(excuseUnheardOf)
		return lossUnheardOf
	case w.waived(r.asked):
		j.excuse(excuseWaived)
		return lossWaived
	default:
		j.fail("removal %s of %s took effect, and protector %s never reserved it", r.id, line.name, w.name())
		return ""
	}
}

// wasCharged reports whether the pod was charged to this protector in every state that a review may have shown. For an eviction the
// webhook reads the pod itself, some time after its API server did.
func (j *judge) wasCharged(w *watched, r *removal, states []podState) bool {
	if reviewed := (podState{pod: r.reviewed}); !reviewed.charged(w, r.agedAt(w, j.lenience)) { // a restore may have undone that state
		return false
	}
	for _, s := range states {
		if s.version >= parseVersion(r.reviewed.ResourceVersion) && !s.charged(w, r.agedAt(w, j.lenience)) {
			return false
		}
	}
	return true
}

// era returns how often a cell was restored.
func (j *judge) era(cell string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cells[cell].era
}

// restored records that a cell returns to a version.
func (j *judge) restored(cell string, version uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	lost := j.cells[cell].restore(version)
	j.cells[cell].workloads.restore(version)
	j.counts.Losses += lost
	j.trace.add("%s: restored to version %d; %d available pods are lost by that", cell, version, lost)
}

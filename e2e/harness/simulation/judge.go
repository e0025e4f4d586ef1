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
	mu        sync.Mutex
	startedAt time.Time
	cells     map[string]*cellHistory
	// protectors are the stored ones by core and name.
	protectors map[protectorKey]*watchedProtector
	// openRemovals are the admitted requests that may still take effect, by cell and pod, with the times of their reviews.
	openRemovals map[openKey]map[*removal]time.Time
	// requested are the pods whose removal a client has requested, other than as a dry run.
	requested map[openKey]bool
	// effecting is the removal that is about to change the store, by cell.
	effecting map[string]*removal
	// epochRestores are the eras in which the leaderships of each cell began, by core and cell, then by epoch.
	epochRestores map[string]map[int64]int
	// leases are the holders of the Leases of shards by core and name. leaseAcquired is when each holder took its Lease. slotsReleased is when an
	// incarnation of a holder gave a slot up.
	leases        map[string]string
	leaseAcquired map[string]time.Time
	slotsReleased map[slotKey]time.Time
	// sources are the Deployments, by their protectors.
	sources map[protectorKey]*sourceHistory
	// decreases judges large decreases of floors.
	decreases *decreaseJudge
	// liveness judges denials in the storm.
	liveness *livenessJudge
	// cellObjects has the Cells, by core and name.
	cellObjects map[string]*cellObjectState
	// releaseEvents are the release Events that a generator wrote for a protector that it was about to release.
	releaseEvents map[string]bool
	// processStarts is the start time of the current process of each name.
	processStarts map[string]time.Time
	// clockTolerance is the maximum difference between clocks.
	clockTolerance time.Duration

	failures []string
	counts   Counts
	trace    *Trace
}

// Counts count what happened in a simulation.
type Counts struct {
	Removals, Admitted, Refused, Effective, Writes, Races, Losses int
	// UsableDenials counts answers in the storm that must not deny for lack of budget.
	UsableDenials int
	// SlotMoves counts writes by which a shard took slots.
	SlotMoves int
	// Excused counts for each loosening of the judge how often it alone prevented a failure (judge_excuses.go).
	Excused ExcuseCounts
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
	c.UsableDenials += other.UsableDenials
	c.SlotMoves += other.SlotMoves
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
		startedAt: time.Now(), cells: map[string]*cellHistory{}, protectors: map[protectorKey]*watchedProtector{},
		openRemovals: map[openKey]map[*removal]time.Time{}, requested: map[openKey]bool{},
		effecting: map[string]*removal{}, epochRestores: map[string]map[int64]int{}, sources: map[protectorKey]*sourceHistory{}, releaseEvents: map[string]bool{},
		leases: map[string]string{}, leaseAcquired: map[string]time.Time{}, slotsReleased: map[slotKey]time.Time{},
		processStarts: map[string]time.Time{}, cellObjects: map[string]*cellObjectState{},
		trace: trace,
	}
	j.counts.Excused = ExcuseCounts{}
	j.liveness = newLiveness(s.Storm)
	j.decreases = newDecreases(s, j.fail, &j.counts)
	j.decreases.cascadeOf = func(protector protectorKey) time.Time { return j.sourceOf(protector).current().cascade }
	return j
}

// fail records that the promise was broken.
func (j *judge) fail(format string, arguments ...any) {
	text := fmt.Sprintf(format, arguments...)
	j.failures = append(j.failures, text)
	j.trace.add("FAILURE: %s", text)
}

// recordCellEvent judges a change in a worker cluster.
func (j *judge) recordCellEvent(cell string, e *apiserver.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.cells[cell]
	t.workloads.observe(e)
	if e.Kind.Kind != "Pod" {
		return
	}
	line, before, after := t.observe(e)
	j.trace.add("%s: pod %s %s by %s: %s", cell, line.name, strings.ToLower(string(e.Type)), writerOrSimulator(e.By), describe(after))
	if before == nil || before.isGoneOrTerminating() {
		return
	}
	if !after.isReady() {
		t.recordLossEnd(line.uid, time.Now().Add(j.clockTolerance))
	}
	r := j.effecting[cell]
	byRemoval := r != nil && e.By == removalActor(r)
	if !byRemoval {
		j.recordLoss(t, *before, after, e.Version)
		return
	}
	j.counts.Effective++
	for _, key := range j.sortedProtectors() {
		w := j.protectors[key]
		if r.relabel != nil && !j.isRelabelCharged(t, w, r, *before, e.Version) || r.update != nil && !j.isRestartCharged(t, w, r, *before, line) {
			continue
		}
		j.judgeEffect(w, r, cell, line, *before, e.Version)
	}
}

func writerOrSimulator(by string) string {
	if by == "" {
		return "the world"
	}
	return by
}

func describe(s podState) string {
	status, _ := s.readyCondition()
	switch {
	case s.isDeleted:
		return "gone"
	case s.isGoneOrTerminating():
		return "terminating"
	default:
		return fmt.Sprintf("%s, ready %q, %v", s.pod.Status.Phase, status, s.pod.Labels)
	}
}

// recordLoss records a change of a pod that no client requested. It is a loss for each protector that counted the pod before and not after.
func (j *judge) recordLoss(t *cellHistory, before, after podState, version uint64) {
	if before.isReady() && (!after.isReady() || !maps.Equal(before.pod.Labels, after.pod.Labels)) {
		j.counts.Losses++
	}
	t.losses = append(t.losses, loss{excuse: lossByItself, restores: t.restores, version: version, before: before, after: after})
}

func (j *judge) sortedProtectors() []protectorKey {
	return slices.SortedFunc(maps.Keys(j.protectors), func(a, b protectorKey) int {
		return strings.Compare(a.core+a.name.String(), b.core+b.name.String())
	})
}

// judgeEffect checks the promise itself: the floor must hold when an admitted removal has taken effect.
func (j *judge) judgeEffect(w *watchedProtector, r *removal, cellID string, line *podHistory, before podState, version uint64) {
	t, now := j.cells[cellID], time.Now().Add(j.clockTolerance)
	if !before.isAvailable(w, now) {
		return
	}
	decided, reserved := w.decisions[quota.HashUID(line.uid)]
	charged := r.reviewed != nil && j.wasCharged(w, r, line.states[:len(line.states)-1])
	floor := w.floorForDecision(decided.floor, decided.position)
	available := 0
	counts := func(cell string) bool { return w.doesCellCountFor(cell, cellID, decided.firstCharge) }
	for name, cell := range j.cells {
		if counts(name) {
			available += cell.available(w, now)
		}
	}
	// The loss applies to this protector alone: another protector may have reserved the removal, and the loss must not excuse it as well.
	lost := func(why Excuse) {
		t.losses = append(t.losses, loss{excuse: why, restores: t.restores, version: version, before: before, after: line.current(), protector: w})
	}
	switch {
	case !reserved && !w.covers(before.pod):
		lost(lossUncovered) // it counts, but is not protected
		return
	case (!reserved || decided.snapshots[cellID].restores < r.restoresBefore || decided.isRestored && !r.requestedAt.After(decided.at)) && !charged:
		// "The readiness race": the pod was not available when it was reviewed. A reservation from before the restore of the cell was for
		// another removal, since none outlives a restore. So was a reservation that a restore of the core brought back: a decision in the
		// lost time may have been made without it.
		j.counts.Races++
		lost(lossByReadinessRace)
		return
	case !reserved:
		if why := j.judgeUnreserved(w, r, cellID, line, before, now); why != "" {
			lost(why)
		}
		return
	case decided.countedSpec != quota.CountedSpec(&w.stored.Spec) || w.hasChangedSince(decided.version):
		return // the decision promised nothing about the pods that count now; the pod stays reserved for later decisions
	}
	w.removedPods[quota.HashUID(line.uid)] = r.relabel == nil && r.update == nil && !w.isDecidedAtZeroFloor(r.requestedAt) && (charged || r.reviewed == nil)
	if decided.isForced || r.overriddenDenial != "" && t.isForced(quota.HashUID(line.uid)) {
		j.counts.Forced++
		lost(lossForced)
		t.losses[len(t.losses)-1].lastDecision = decided.firstCharge.version
		return
	}
	excused := j.countExcusedPods(w, decided, counts, now, floor-available)
	switch {
	case available+excused >= floor:
	case decided.isBlindToRestore:
		j.countExcuse(excuseWebhookAfterRestore)
		lost(lossWebhookAfterRestore)
		return
	default:
		j.fail("over-admission: removal %s of %s left %d pods of protector %s available (and %d lost without a removal); the floor is %d",
			r.id, line.name, available, w.name(), excused, floor)
	}
	j.judgeDomainLoss(w, r, cellID, line, decided.firstCharge, now)
}

// judgeUnreserved judges an effect that was never reserved. It returns why other decisions lose the pod; "" if they do not.
func (j *judge) judgeUnreserved(w *watchedProtector, r *removal, cellID string, line *podHistory, before podState, now time.Time) Excuse {
	switch {
	case j.isPendingForcedReservation(cellID, line, r.overriddenDenial):
		j.countExcuse(excuseForcedUnreserved)
		return lossForced
	case r.update != nil && w.overduePods[quota.HashUID(line.uid)]:
		j.countExcuse(excuseOverdue)
		return lossOverdue
	case w.isExcludedFromCounts(r, cellID, before, now):
		return "" // it was admitted by an earlier spec, and the pod must not have been counted by this one yet
	case w.isUnseenBy(r):
		j.countExcuse(excuseUnseenProtector)
		return lossUnseenProtector
	case w.isDecidedAtZeroFloor(r.requestedAt):
		j.countExcuse(excuseZeroFloor)
		return lossZeroFloor
	default:
		j.fail("removal %s of %s took effect, but protector %s never reserved it", r.id, line.name, w.name())
		return ""
	}
}

// wasCharged reports whether the pod was charged to this protector in every state that a review may have shown. For an eviction the
// webhook reads the pod itself, some time after its API server did.
func (j *judge) wasCharged(w *watchedProtector, r *removal, states []podState) bool {
	if reviewed := (podState{pod: r.reviewed}); !reviewed.isCharged(w, r.chargeableBy(w, j.clockTolerance)) { // a restore may have undone that state
		return false
	}
	for _, s := range states {
		if s.version >= parseVersion(r.reviewed.ResourceVersion) && !s.isCharged(w, r.chargeableBy(w, j.clockTolerance)) {
			return false
		}
	}
	return true
}

// restoresOf returns how often a cell was restored.
func (j *judge) restoresOf(cell string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cells[cell].restores
}

// recordCellRestore records that a cell returns to a version.
func (j *judge) recordCellRestore(cell string, version uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	lost := j.cells[cell].restore(version)
	j.cells[cell].workloads.restore(version)
	j.counts.Losses += lost
	j.trace.add("%s: restored to version %d; %d available pods are lost by that", cell, version, lost)
}

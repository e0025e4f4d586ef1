// Package judge decides whether a run was right. It sees each write of each cluster, the reviews and the answers. It knows no component.
package judge

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/trace"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

type apiserverEvent = apiserver.Event

// Judge watches every change of every store and reports when the promise is broken. It has the true state of all clusters at every
// instant, and trusts no status. Its own methods take its lock and pass what happens to the parts, each of which judges one subject.
type Judge struct {
	// mu guards the judge and all of its parts: what happens at one instant is judged as a whole.
	mu      sync.Mutex
	history *clusterHistory
	report  *report

	// effects judges removals that take effect.
	effects *effectJudge
	// reservations judges reservations, and answers that need one.
	reservations *reservationJudge
	// aggregations judges counts, expectations and summaries.
	aggregations *aggregationJudge
	// topology judges the cells in statuses.
	topology *topologyJudge
	// rings judges the shards of cells.
	rings *ringJudge
	// lifecycles judges the ends and recreations of protectors.
	lifecycles *lifecycleJudge
	// decreases judges large decreases of floors.
	decreases *decreaseJudge
	// liveness judges denials in the storm.
	liveness *livenessJudge
	// stalls are the stalls of processes.
	stalls *stalls
	// scopes judges which removals an API server does not have reviewed, for lack of a label; nil in scenarios of scope All.
	scopes *scopeJudge
	// shares judges protectors with shares, and all others in the same scenario, instead of the other parts; nil in other scenarios.
	shares *shareJudge
}

// New returns the judge of a run of a scenario. Add each cell before anything happens in it.
func New(s scenario.Scenario, events *trace.Trace) *Judge {
	j := &Judge{history: newClusterHistory(), report: &report{counts: Counts{Excused: ExcuseCounts{}}, trace: events}, stalls: newStalls()}
	sources := sourceHistories{}
	j.effects = &effectJudge{history: j.history, report: j.report, effecting: map[string]*Removal{}}
	j.reservations = &reservationJudge{
		history: j.history, report: j.report, openRemovals: map[openKey]map[*Removal]time.Time{}, requested: map[openKey]bool{},
	}
	j.aggregations = &aggregationJudge{history: j.history, report: j.report}
	j.topology = &topologyJudge{
		history: j.history, report: j.report, stalls: j.stalls, reservations: j.reservations, cellObjects: map[string]*cellObjectState{},
	}
	j.rings = &ringJudge{
		report: j.report, leases: map[string]string{}, leaseAcquired: map[string]time.Time{}, slotsReleased: map[slotKey]time.Time{},
	}
	if s.Shares {
		j.shares = newShareJudge(j.history, j.report)
	}
	if s.Scope.Protected {
		j.scopes = newScopeJudge(j.report)
	}
	j.liveness = newLiveness(s.Storm, j.history, j.report)
	j.decreases = newDecreases(s, j.report, j.stalls, sources)
	j.lifecycles = &lifecycleJudge{
		history: j.history, report: j.report, liveness: j.liveness, stalls: j.stalls, evidence: j.decreases.evidence, sources: sources,
		policies:      j.decreases.policies,
		releaseEvents: map[string]bool{}, endedUnheld: map[protectorKey]*v1alpha1.PodProtector{},
	}
	return j
}

// Fail records a failure that the simulator has found.
func (j *Judge) Fail(format string, arguments ...any) { j.report.fail(format, arguments...) }

// RecordCellEvent judges a change in a worker cluster.
func (j *Judge) RecordCellEvent(cell string, e *apiserver.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.history.cells[cell]
	t.workloads.observe(e)
	if e.Kind.Kind == "Pod" {
		j.history.podCells[e.New.GetUID()] = cell
		j.shares.judgePodChange(cell, j.effects.effecting[cell], func() { j.effects.judgePodChange(cell, t, e) })
	}
	if space, ok := e.New.(*corev1.Namespace); ok {
		j.scopes.recordNamespace(cell, space, e)
	}
	if share, ok := e.New.(*v1alpha1.PodProtector); ok {
		j.shares.recordShare(cell, share, e)
	}
}

// RecordCoreEvent judges a change in a core cluster.
func (j *Judge) RecordCoreEvent(core string, e *apiserver.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.decreases.recordCoreEvent(core, e)
	switch object := e.New.(type) {
	case *v1alpha1.Cell:
		j.topology.recordCellObject(core, object, e)
		j.history.recordLeadership(core, object)
		j.rings.judgeSlotMoves(core, object, e)
	case *coordinationv1.Lease:
		j.rings.recordShardLease(core, object, e)
	case *eventsv1.Event:
		j.lifecycles.recordReleaseEvent(core, object)
	}
	if isSource(e.New) {
		j.lifecycles.recordSource(core, e)
	}
	p, ok := e.New.(*v1alpha1.PodProtector)
	if ok {
		j.scopes.recordProtector(core, p, e)
	}
	switch {
	case ok && j.shares != nil:
		j.shares.recordProtector(core, p, e)
	case ok:
		j.recordProtectorEvent(core, p, e)
	}
}

// recordProtectorEvent judges a change of a protector.
func (j *Judge) recordProtectorEvent(core string, p *v1alpha1.PodProtector, e *apiserver.Event) {
	j.report.counts.Writes++
	key := protectorKey{core, client.ObjectKeyFromObject(p)}
	if e.Type == watch.Deleted {
		j.report.trace.Add("%s: protector %s is gone by %s", core, p.Name, writerOrSimulator(e.By))
		j.lifecycles.recordProtectorEnd(key, e)
		return
	}
	w := j.history.protectors[key]
	if w == nil || w.isLost() && !isRecreated(p) {
		w = j.history.newWatched(core)
		j.history.protectors[key] = w
	}
	old, _ := e.Old.(*v1alpha1.PodProtector)
	if isRecreated(p) && (old == nil || quota.IsRestorePending(old)) {
		j.lifecycles.judgeRecreation(w, p, e)
		return
	}
	j.report.trace.Add("%s: protector %s by %s: %s", core, p.Name, writerOrSimulator(e.By), describeStatus(p))
	if hasOtherCoverage(old, p) {
		j.liveness.coverageChangedAt[key] = time.Now()
	}
	w.setStored(p, old, e.Version)
	if w.coverage.mayBeInTransition() {
		j.history.changedCoverages[incarnation{core, p.UID}] = true
	}
	j.judgeStatus(w, old, e)
}

// judgeStatus judges a write of a protector: nothing may be lost, and the counts must be true.
func (j *Judge) judgeStatus(w *watchedProtector, old *v1alpha1.PodProtector, e *apiserver.Event) {
	for i := range w.stored.Status.Cells {
		cell := &w.stored.Status.Cells[i]
		var before v1alpha1.PodProtectorCell
		if old != nil {
			if c := quota.CellOf(old, cell.CellID); c != nil {
				before = *c
			}
		}
		j.aggregations.judgeCounts(w, cell, &before)
		j.rings.judgeWriter(w, cell, &before, e)
		j.reservations.judgeReservations(w, cell, &before, e)
		j.aggregations.judgeTarget(w, cell, &before)
		j.aggregations.judgeExpectation(w, cell, &before, old)
	}
	j.topology.judgeEntries(w, old, e)
	j.reservations.judgeIdentity(w, old, e)
	j.aggregations.judgeSummary(w)
}

// RestoresOf returns how often a cell was restored.
func (j *Judge) RestoresOf(cell string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.history.cells[cell].restores
}

// RecordCellRestore records that a cell returns to a version.
func (j *Judge) RecordCellRestore(cell string, version uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	lost := 0
	j.shares.judgePodChange(cell, nil, func() { lost = j.history.cells[cell].restore(version) })
	j.history.cells[cell].workloads.restore(version)
	j.report.counts.Losses += lost
	j.report.trace.Add("%s: restored to version %d; %d available pods are lost by that", cell, version, lost)
}

// SetClockTolerance sets the maximum difference between clocks.
func (j *Judge) SetClockTolerance(tolerance time.Duration) { j.history.clockTolerance = tolerance }

// AddCell adds a cell, before anything happens in it.
func (j *Judge) AddCell(name string) { j.history.cells[name] = newTruth() }

// RecordProcessStart records that a process starts.
func (j *Judge) RecordProcessStart(p *Replica) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.history.processStarts[p.Name] = p.StartedAt
}

// RecordStormStart records that all is counted and that the storm begins.
func (j *Judge) RecordStormStart(at time.Time) { j.liveness.stormStart = at }

// Result returns the failures so far, and the counts of what happened.
func (j *Judge) Result() (failures []string, counts Counts) {
	return j.report.failures, j.report.counts
}

// HasFailed reports whether the promise was broken.
func (j *Judge) HasFailed() bool { return len(j.report.failures) > 0 }

// IsForced reports whether a user removes a pod of any cell by force.
func (j *Judge) IsForced(pod quota.UIDHash) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, t := range j.history.cells {
		if t.isForced(pod) {
			return true
		}
	}
	return false
}

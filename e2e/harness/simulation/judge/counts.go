package judge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// aggregationJudge judges what aggregators write: the counts, the expectations and the summaries of protectors. The lock of the judge guards it.
type aggregationJudge struct {
	history *clusterHistory
	report  *report
}

// judgeCounts compares the counts of a cell with the pods at their version.
func (j *aggregationJudge) judgeCounts(w *watchedProtector, cell, before *v1alpha1.PodProtectorCell) {
	a, b := &cell.Aggregation, &before.Aggregation
	if a.Epoch == b.Epoch && a.Epoch > 0 && a.Holder != b.Holder && w.lastRestore.IsZero() {
		j.report.fail("%s and %s have both written cell %s of protector %s with epoch %d", b.Holder, a.Holder, cell.CellID, w.name(), a.Epoch)
	}
	if a.Epoch == b.Epoch && a.SnapshotVersion == b.SnapshotVersion && a.CountedReplicas == b.CountedReplicas &&
		a.Void == b.Void && a.CountedSpec == b.CountedSpec {
		return
	}
	version := parseVersion(a.SnapshotVersion)
	// A restored core issues an epoch twice.
	sameLeader := a.Epoch == b.Epoch && (a.Holder == b.Holder || w.lastRestore.IsZero())
	if a.Epoch < b.Epoch || sameLeader && version < parseVersion(b.SnapshotVersion) {
		j.report.fail("cell %s of protector %s went back from epoch %d version %s to epoch %d version %s",
			cell.CellID, w.name(), b.Epoch, b.SnapshotVersion, a.Epoch, a.SnapshotVersion)
	}
	from := max(version, parseVersion(a.SettledVersion))
	if earlier := parseVersion(b.SnapshotVersion); !sameLeader && from < earlier && j.history.cells[cell.CellID].restores == 0 {
		j.report.fail("epoch %d of cell %s begins with version %d in protector %s, which epoch %d had counted at %d",
			a.Epoch, cell.CellID, from, w.name(), b.Epoch, earlier)
	}
	if a.Void || a.CountedSpec != quota.CountedSpec(&w.stored.Spec) {
		return
	}
	// After a restore, a snapshot may still be from before it, or leave out pods that had been seen to be gone then.
	t, then, goneSince, aged := j.history.cells[cell.CellID], 0, 0, 0
	first := j.history.earliestRestores(w.core, cell.CellID, a.Epoch)
	for era := first; era <= t.restores; era++ {
		then, goneSince, aged = t.availableAt(w, first, era, version, parseVersion(a.SettledVersion), a.LastEventTime.Time, j.history.clockTolerance)
		if got := int(a.CountedReplicas); got <= then && (got >= then-goneSince-aged || a.InTransition && w.coverage.mayBeInTransition()) {
			j.report.countCountExcuses(era < t.restores, got < then, got < then-goneSince && aged > 0)
			return
		}
	}
	got := int(a.CountedReplicas)
	const format = "cell %s of protector %s says that %d pods were available at version %d; " +
		"want %d, of which %d were deleted or changed and %d may not have been observed"
	j.report.fail(format, cell.CellID, w.name(), got, version, then, goneSince, aged)
}

// storedTotals sums the cells of the stored status: the pods that may count as available in cells that are not discounted, and the reservations.
func (w *watchedProtector) storedTotals() (available, reserved int) {
	for i := range w.stored.Status.Cells {
		c := &w.stored.Status.Cells[i]
		if c.Aggregation.CountedSpec == quota.CountedSpec(&w.stored.Spec) {
			available += int(c.Aggregation.CountedReplicas) - w.discounted(c)
		}
		reserved += countOpenReservations(&c.AdmissionHistory)
	}
	return available, reserved
}

// judgeSummary compares the informational fields with the cells.
func (j *aggregationJudge) judgeSummary(w *watchedProtector) {
	s := &w.stored.Status
	if len(s.Cells) == 0 || s.ObservedGeneration != w.stored.Generation {
		return
	}
	available, reserved := w.storedTotals()
	if int(s.Summary.Available) != available || int(s.Summary.Reserved) != reserved || w.isFloorWrong() {
		j.report.fail("the summary of protector %s is %+v with a floor of %d, but its cells record %d available and %d reserved",
			w.name(), s.Summary, s.DesiredAvailable, available, reserved)
	}
}

// isFloorFromWorkloads reports whether the floor of a spec is computed from the replicas that workloads want.
func isFloorFromWorkloads(spec *v1alpha1.PodProtectorSpec) bool {
	isNumber := spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.Int
	return spec.ExpectedReplicas == nil && !isNumber
}

// writtenFloor returns the floor of a protector by the expectations in its status. It is unknown while a cell has no expectation for the
// current spec. Percentages are rounded up. This is an independent implementation, not the code under test.
func writtenFloor(p *v1alpha1.PodProtector) (floor int, known bool) {
	spec := &p.Spec
	if spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.Int {
		return int(spec.MinAvailable.IntVal), true
	}
	expected, known := writtenExpectation(p)
	if !known {
		return 0, false
	}
	switch {
	case spec.MinAvailable != nil:
		return percentOf(spec.MinAvailable, expected), true
	case spec.MaxUnavailable != nil && spec.MaxUnavailable.Type == intstr.Int:
		return max(0, expected-int(spec.MaxUnavailable.IntVal)), true
	case spec.MaxUnavailable != nil:
		return max(0, expected-percentOf(spec.MaxUnavailable, expected)), true
	}
	return 0, false
}

// writtenExpectation returns how many pods a protector expects over all cells by its spec and status.
func writtenExpectation(p *v1alpha1.PodProtector) (pods int, known bool) {
	if p.Spec.ExpectedReplicas != nil {
		return int(*p.Spec.ExpectedReplicas), true
	}
	for i := range p.Status.Cells {
		a := &p.Status.Cells[i].Aggregation
		if !isCounted(p, a) || a.ExpectedReplicas == nil {
			return 0, false
		}
		pods, known = pods+int(*a.ExpectedReplicas), true
	}
	return pods, known
}

func percentOf(amount *intstr.IntOrString, whole int) int {
	percent, err := strconv.Atoi(strings.TrimSuffix(amount.StrVal, "%"))
	if err != nil {
		panic(fmt.Sprintf("simulation: %q is not a percentage", amount.StrVal))
	}
	return (whole*percent + 99) / 100
}

// floorOf returns the floor of a protector; 0 if it is unknown.
func floorOf(p *v1alpha1.PodProtector) int {
	floor, _ := writtenFloor(p)
	return floor
}

// isFloorWrong reports whether the status shows another floor than the one that follows from its cells. An unknown floor in the status is
// informational.
func (w *watchedProtector) isFloorWrong() bool {
	floor, known := writtenFloor(w.stored)
	return known && int(w.stored.Status.DesiredAvailable) != floor
}

// effectiveFloor returns the floor in force. While no floor can be computed, no removal is admitted, so it returns the last known floor.
func (w *watchedProtector) effectiveFloor() int {
	floor, known := writtenFloor(w.stored)
	if last, isRecorded := w.floors.last(); !known && isRecorded {
		return last
	}
	return floor
}

// A removal is judged by the floor of the version that it was decided on: raising or lowering the floor later does not change what that
// decision may do. There is one exception: a removal that is admitted later, under a lower floor, may take effect first. Both together
// leave as many pods as the later decision requires.

// effectiveFloors are the floors of a protector in force over time, and those of its decisions.
type effectiveFloors struct {
	overTime []floorSince
	// decided are the floors of all decisions in their order.
	decided []int
}

type floorSince struct {
	at    time.Time
	floor int
}

// record records the floor in force from now on.
func (h *effectiveFloors) record(floor int) {
	if last, known := h.last(); !known || last != floor {
		h.overTime = append(h.overTime, floorSince{at: time.Now(), floor: floor})
	}
}

// last returns the last recorded floor.
func (h *effectiveFloors) last() (floor int, known bool) {
	if len(h.overTime) == 0 {
		return 0, false
	}
	return h.overTime[len(h.overTime)-1].floor, true
}

// highestSince returns the highest floor since a time.
func (h *effectiveFloors) highestSince(at time.Time) int {
	highest := 0
	for i, f := range h.overTime {
		if i+1 == len(h.overTime) || h.overTime[i+1].at.After(at) {
			highest = max(highest, f.floor)
		}
	}
	return highest
}

// lowestSince returns the lowest floor since a time.
func (h *effectiveFloors) lowestSince(at time.Time) int {
	lowest, _ := h.last()
	for i, f := range h.overTime {
		if i+1 == len(h.overTime) || h.overTime[i+1].at.After(at) {
			lowest = min(lowest, f.floor)
		}
	}
	return lowest
}

// forDecision returns the floor that an effect must keep, whose decision was the nth on the protector under the given floor.
func (h *effectiveFloors) forDecision(floor, nth int) int {
	if nth+1 < len(h.decided) {
		floor = min(floor, slices.Min(h.decided[nth+1:]))
	}
	return floor
}

// isDecidedAtZero reports whether a review that began at a time may have used a version with a floor of zero, under which the webhook reserves
// nothing. isUnseenBy judges a webhook that lags.
func (h *effectiveFloors) isDecidedAtZero(requestedAt time.Time) bool {
	for i, f := range h.overTime {
		ended := i+1 < len(h.overTime) && !h.overTime[i+1].at.After(requestedAt)
		if f.floor == 0 && !ended && !f.at.After(requestedAt.Add(scenario.WebhookTimeout)) {
			return true
		}
	}
	return false
}

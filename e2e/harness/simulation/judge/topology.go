package judge

import (
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Cells that are deleted, and cells whose aggregators are silent:
//
//   - The entry of a cell leaves a status only after its Cell was deleted, and when no removal that it admitted can take effect any
//     more.
//   - No entry is left when the topology controller releases a Cell, and none is made later.
//   - Nothing is reserved in a cell whose entry is draining.
//   - Pods that a decision discounts do not count for its effect either, unless the discount has ended since: the other cells keep the
//     floor.
//
// In a calm, every Cell exists, and no entry is discounted.

// cellObjectState is the true state of a Cell.
type cellObjectState struct {
	exists, isDeleting bool
	// wasDeleted reports whether it was ever deleted. ended is when it last ceased to exist.
	wasDeleted bool
	endedAt    time.Time
}

// topologyJudge judges which cells the statuses of protectors have. The lock of the judge guards it.
type topologyJudge struct {
	history      *clusterHistory
	report       *report
	stalls       *stalls
	reservations *reservationJudge
	// cellObjects has the Cells, by core and name.
	cellObjects map[string]*cellObjectState
}

// isDiscounted reports whether the pods of a cell do not count in other cells.
func isDiscounted(cell *v1alpha1.PodProtectorCell) bool {
	return cell.Discount == v1alpha1.DiscountStale || cell.Discount == v1alpha1.DiscountDraining
}

func (j *topologyJudge) cellOf(core, cell string) *cellObjectState {
	key := core + "/" + cell
	if j.cellObjects[key] == nil {
		j.cellObjects[key] = &cellObjectState{}
	}
	return j.cellObjects[key]
}

// recordCellObject records a change of a Cell.
func (j *topologyJudge) recordCellObject(core string, cell *v1alpha1.Cell, e *apiserver.Event) {
	truth := j.cellOf(core, cell.Name)
	truth.exists, truth.isDeleting = e.Type != watch.Deleted, cell.DeletionTimestamp != nil
	if !truth.exists || truth.isDeleting {
		truth.wasDeleted = true
	}
	if truth.exists {
		return
	}
	j.report.trace.Add("%s: Cell %s is deleted by %s", core, cell.Name, writerOrSimulator(e.By))
	truth.endedAt = time.Now()
	delete(j.history.epochRestores, core+"/"+cell.Name) // those of its successor begin again
	if !strings.HasPrefix(e.By, "topology") {
		return
	}
	for _, key := range j.history.sortedProtectors() {
		w := j.history.protectors[key]
		// A restore can bring entries back during the release. Their counts are void until a leadership counts again.
		isUndone := !w.lastRestore.IsZero() && time.Since(w.lastRestore) < maxInFlight
		if w.core == core && !w.isLost() && !isUndone && quota.CellOf(w.stored, cell.Name) != nil {
			j.report.fail("%s released Cell %s, and protector %s has an entry of it", e.By, cell.Name, w.name())
		}
	}
}

// RecordRestoredCellObjects records the Cells of a restored core.
func (j *Judge) RecordRestoredCellObjects(core *Cluster) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.topology.recordRestore(core)
}

func (j *topologyJudge) recordRestore(core *Cluster) {
	for key, truth := range j.cellObjects {
		if strings.HasPrefix(key, core.Name+"/") {
			truth.exists, truth.endedAt = false, time.Now()
		}
	}
	objects, _ := core.Store.List("cells", "")
	for _, o := range objects {
		truth := j.cellOf(core.Name, o.GetName())
		truth.exists, truth.isDeleting = true, o.GetDeletionTimestamp() != nil
		truth.wasDeleted = truth.wasDeleted || truth.isDeleting
	}
}

// judgeEntries judges which cells a write adds to a status and removes from it, and what it reserves in draining ones.
func (j *topologyJudge) judgeEntries(w *watchedProtector, old *v1alpha1.PodProtector, e *apiserver.Event) {
	w.recordCountedCells(parseVersion(w.stored.ResourceVersion))
	for i := range w.stored.Status.Cells {
		cell := &w.stored.Status.Cells[i]
		before := &v1alpha1.PodProtectorCell{}
		if old != nil {
			before = quota.CellOf(old, cell.CellID)
		}
		if before == nil {
			j.judgeNewEntry(w, cell.CellID, e)
		}
		if before == nil || cell.Discount != v1alpha1.DiscountDraining || before.Discount != v1alpha1.DiscountDraining {
			continue
		}
		excused := j.history.countForcedReservationsOfCell(cell, before) + countEscrowed(&before.AdmissionHistory) // as in judgeExpectation
		if len(reservationHashes(&cell.AdmissionHistory))-excused > len(reservationHashes(&before.AdmissionHistory)) {
			j.report.fail("%s reserved a removal in cell %s of protector %s, which is being deleted", writerOrSimulator(e.By), cell.CellID, w.name())
		}
	}
	if old == nil || old.UID != w.stored.UID {
		return
	}
	for i := range old.Status.Cells {
		was := &old.Status.Cells[i]
		if quota.CellOf(w.stored, was.CellID) != nil {
			continue
		}
		if !j.cellOf(w.core, was.CellID).wasDeleted {
			j.report.fail("cell %s is removed from the status of protector %s", was.CellID, w.name())
		}
		now := was.DeepCopy()
		now.Aggregation.SnapshotVersion = strconv.FormatUint(math.MaxUint64, 10) // no older count of the pod remains
		for hash := range reservationHashes(&was.AdmissionHistory) {
			j.reservations.judgeDrop(w, now, hash, e)
		}
	}
}

// judgeNewEntry judges the new entry of a cell. A process may have read the Cell shortly before its deletion, or before it was paused.
func (j *topologyJudge) judgeNewEntry(w *watchedProtector, cell string, e *apiserver.Event) {
	truth := j.cellOf(w.core, cell)
	by, _ := writingProcess(e)
	if !truth.exists && !truth.endedAt.IsZero() && truth.endedAt.Before(j.stalls.oldestObservedState(by, time.Now().Add(-time.Second-maxInFlight))) {
		j.report.fail("%s makes an entry of cell %s in protector %s, and its Cell was deleted", writerOrSimulator(e.By), cell, w.name())
	}
}

// recordCountedCells records which entries are not discounted at a version.
func (w *watchedProtector) recordCountedCells(version uint64) {
	for i := range w.stored.Status.Cells {
		if cell := &w.stored.Status.Cells[i]; !isDiscounted(cell) {
			w.lastCountedVersions[cell.CellID] = version
		}
	}
}

// doesCellCountFor reports whether the pods of a cell count for the effect of a decision. Pods that the decision discounted do not, unless the
// discount ended.
func (w *watchedProtector) doesCellCountFor(cell, in string, made charge) bool {
	return cell == in || w.lastCountedVersions[cell] >= made.version
}

// discounted returns how many pods of a cell do not count for removals in another cell.
func (w *watchedProtector) discounted(cell *v1alpha1.PodProtectorCell) int {
	if !isDiscounted(cell) || cell.Aggregation.CountedSpec != quota.CountedSpec(&w.stored.Spec) {
		return 0
	}
	return max(0, int(cell.Aggregation.CountedReplicas)-countOpenReservations(&cell.AdmissionHistory))
}

// discountReason returns why the budget of a protector is smaller than its pods allow; "" if it is not.
func discountReason(p *v1alpha1.PodProtector) string {
	for i := range p.Status.Cells {
		if discount := p.Status.Cells[i].Discount; discount != "" {
			return "protector " + p.Name + " discounts cell " + p.Status.Cells[i].CellID + ": " + string(discount)
		}
	}
	return ""
}

// MaxTimeWithoutCell is how long it may take from the deletion of a Cell until it is recreated, and from then until it is counted.
const MaxTimeWithoutCell = time.Minute

package simulation

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

// cellTruth is the true state of a Cell.
type cellTruth struct {
	exists, deleting bool
	// deleted reports whether it was ever deleted. ended is when it last ceased to exist.
	deleted bool
	ended   time.Time
}

// isDiscounted reports whether the pods of a cell do not count in other cells.
func isDiscounted(cell *v1alpha1.PodProtectorCell) bool {
	return cell.Discount == v1alpha1.DiscountStale || cell.Discount == v1alpha1.DiscountDraining
}

func (j *judge) cellOf(core, cell string) *cellTruth {
	key := core + "/" + cell
	if j.topology[key] == nil {
		j.topology[key] = &cellTruth{}
	}
	return j.topology[key]
}

// cellObjectChanged records a change of a Cell.
func (j *judge) cellObjectChanged(core string, cell *v1alpha1.Cell, e *apiserver.Event) {
	truth := j.cellOf(core, cell.Name)
	truth.exists, truth.deleting = e.Type != watch.Deleted, cell.DeletionTimestamp != nil
	if !truth.exists || truth.deleting {
		truth.deleted = true
	}
	if truth.exists {
		return
	}
	j.trace.add("%s: Cell %s is deleted by %s", core, cell.Name, orWorld(e.By))
	truth.ended = time.Now()
	delete(j.epochs, core+"/"+cell.Name) // those of its successor begin again
	if !strings.HasPrefix(e.By, "topology") {
		return
	}
	for _, key := range j.sortedProtectors() {
		w := j.protectors[key]
		// A restore can bring entries back during the release. Their counts are void until a leadership counts again.
		isUndone := !w.restored.IsZero() && time.Since(w.restored) < inFlight
		if w.core == core && !w.isLost() && !isUndone && quota.CellOf(w.stored, cell.Name) != nil {
			j.fail("%s released Cell %s, and protector %s has an entry of it", e.By, cell.Name, w.name())
		}
	}
}

// cellsAreOld records the Cells of a restored core.
func (j *judge) cellsAreOld(core *clusterState) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for key, truth := range j.topology {
		if strings.HasPrefix(key, core.name+"/") {
			truth.exists, truth.ended = false, time.Now()
		}
	}
	objects, _ := core.store.List("cells", "")
	for _, o := range objects {
		truth := j.cellOf(core.name, o.GetName())
		truth.exists, truth.deleting = true, o.GetDeletionTimestamp() != nil
		truth.deleted = truth.deleted || truth.deleting
	}
}

// judgeEntries judges which cells a write adds to a status and removes from it, and what it reserves in draining ones.
func (j *judge) judgeEntries(w *watched, old *v1alpha1.PodProtector, e *apiserver.Event) {
	for i := range w.stored.Status.Cells {
		cell := &w.stored.Status.Cells[i]
		if !isDiscounted(cell) {
			w.vouched[cell.CellID] = parseVersion(w.stored.ResourceVersion)
		}
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
		if open := len(hashesOf(&cell.AdmissionHistory)); open-j.forcedIn(cell, before) > len(hashesOf(&before.AdmissionHistory)) {
			j.fail("%s reserved a removal in cell %s of protector %s, which is being deleted", orWorld(e.By), cell.CellID, w.name())
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
		if !j.cellOf(w.core, was.CellID).deleted {
			j.fail("cell %s is removed from the status of protector %s", was.CellID, w.name())
		}
		now := was.DeepCopy()
		now.Aggregation.SnapshotVersion = strconv.FormatUint(math.MaxUint64, 10) // no older count of the pod remains
		for hash := range hashesOf(&was.AdmissionHistory) {
			j.judgeDrop(w, now, hash, e)
		}
	}
}

// judgeNewEntry judges the new entry of a cell. A process may have read the Cell shortly before its deletion, or before it was paused.
func (j *judge) judgeNewEntry(w *watched, cell string, e *apiserver.Event) {
	truth := j.cellOf(w.core, cell)
	by, _ := writer(e)
	if !truth.exists && !truth.ended.IsZero() && truth.ended.Before(j.decreases.since(by, time.Now().Add(-time.Second-inFlight))) {
		j.fail("%s makes an entry of cell %s in protector %s, and its Cell was deleted", orWorld(e.By), cell, w.name())
	}
}

// countsFor reports whether the pods of a cell count for the effect of a decision. Pods that the decision discounted do not, unless the
// discount ended.
func (w *watched) countsFor(cell, in string, made charged) bool {
	return cell == in || w.vouched[cell] >= made.version
}

// discounted returns how many pods of a cell do not count for removals in another cell.
func (w *watched) discounted(cell *v1alpha1.PodProtectorCell) int {
	if !isDiscounted(cell) || cell.Aggregation.CountedSpec != quota.CountedSpec(&w.stored.Spec) {
		return 0
	}
	return max(0, int(cell.Aggregation.CountedReplicas)-openOf(&cell.AdmissionHistory))
}

// isDiscountedAnywhere returns why the budget of a protector is smaller than its pods allow; "" if it is not.
func isDiscountedAnywhere(p *v1alpha1.PodProtector) string {
	for i := range p.Status.Cells {
		if discount := p.Status.Cells[i].Discount; discount != "" {
			return "protector " + p.Name + " discounts cell " + p.Status.Cells[i].CellID + ": " + string(discount)
		}
	}
	return ""
}

package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Some protectors must tolerate the loss of a cell. No removal in one cell may leave fewer pods than the floor outside any other cell. A
// repeated removal is judged by the state that it was charged on, since it is not charged again.

// drawSpread makes protectors tolerate the loss of cells. It has its own random stream, so that everything else of a seed stays the same.
// The stream was chosen so that it affects no seed that a test names.
func drawSpread(s *Scenario, r *rand.Rand) {
	if s.Workers < 2 || r.IntN(3) > 0 {
		return
	}
	for i := range s.Protectors {
		if r.IntN(3) > 0 {
			s.Protectors[i].MindsLoss = true
			s.Protectors[i].Floor = r.IntN(s.Pods*(s.Workers-1)/s.Workers + 1)
		}
	}
	drawBurst(s, r)
}

func (p ProtectorPlan) spread() *v1alpha1.Spread {
	if !p.MindsLoss {
		return nil
	}
	return &v1alpha1.Spread{TopologyKey: v1alpha1.TopologyKeyCell, TolerateDomainLoss: true}
}

// toleratesDomainLoss reports whether a protector must tolerate the loss of a cell.
func (w *watchedProtector) toleratesDomainLoss() bool {
	return w.stored.Spec.Spread != nil && w.stored.Spec.Spread.TolerateDomainLoss
}

// judgeStoredDomainLoss checks by the stored status whether a new reservation in a cell leaves enough pods outside each other cell.
func (j *reservationJudge) judgeStoredDomainLoss(w *watchedProtector, in string, e *apiserver.Event) {
	floor := floorOf(w.stored)
	if !w.toleratesDomainLoss() || floor == 0 {
		return
	}
	for _, lost := range w.stored.Status.Cells {
		if lost.CellID == in {
			continue
		}
		left := 0
		for i := range w.stored.Status.Cells {
			c := &w.stored.Status.Cells[i]
			if c.CellID != lost.CellID && (c.CellID == in || !isDiscounted(c)) && c.Aggregation.CountedSpec == quota.CountedSpec(&w.stored.Spec) {
				left += max(0, int(c.Aggregation.CountedReplicas)-countOpenReservations(&c.AdmissionHistory))
			}
		}
		if left < floor {
			j.report.fail("%s admitted a removal in %s with protector %s of which %d pods are left if %s is lost; the floor is %d",
				e.By, in, w.name(), left, lost.CellID, floor)
		}
	}
}

// judgeDomainLoss checks the promise after a removal took effect in a cell: the loss of each other cell must leave the floor.
func (j *effectJudge) judgeDomainLoss(w *watchedProtector, r *removal, in string, line *podHistory, made charge, now time.Time) {
	floor := w.floors.forDecision(made.floor, made.position)
	if !w.toleratesDomainLoss() || floor == 0 {
		return
	}
	for _, lost := range slices.Sorted(maps.Keys(j.history.cells)) {
		if lost == in {
			continue
		}
		left, excused := 0, 0
		for name, cell := range j.history.cells {
			if name != lost && w.doesCellCountFor(name, in, made) {
				left += cell.available(w, now)
				excused += cell.countLosses(made.snapshots[name], w, made.version, now, "")
			}
		}
		if left+excused < floor {
			j.report.fail("removal %s of %s left %d pods of protector %s outside %s (and %d were lost without a removal); the floor is %d",
				r.id, line.name, left, w.name(), lost, excused, floor)
		}
	}
}

// intolerableLoss returns which loss would break the floor after one more removal in a cell, or "" if none would.
func (h *clusterHistory) intolerableLoss(w *watchedProtector, in string) string {
	floor := floorOf(w.stored)
	if !w.toleratesDomainLoss() || floor == 0 {
		return ""
	}
	for _, lost := range slices.Sorted(maps.Keys(h.cells)) {
		left := 0
		for name, cell := range h.cells {
			pods := cell.available(w, time.Now())
			if name == in {
				pods = max(0, pods-1) // one that is charged need not be counted
			}
			if name != lost {
				left += pods
			}
		}
		if lost != in && left < floor {
			return fmt.Sprintf("protector %s would have %d left of a floor of %d if %s was lost", w.name(), left, floor, lost)
		}
	}
	return ""
}

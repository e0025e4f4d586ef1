package findings

import (
	"fmt"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// lateAfterDeadline is how long after its cell's admissionDeadline an open reservation counts as late.
const lateAfterDeadline = time.Minute

// protectorProblem is a problem that protectors can have. All protectors with the same problem form one finding.
type protectorProblem struct {
	Verdict
	found, do, runbook string
	names              []string
}

// checkProtectors judges the protectors of a core: those that deny removals although there may be budget, and those that need manual repair.
func checkProtectors(core *Core, now time.Time) []Finding {
	f := reporter{core.where(), "protectors"}
	if err := core.Protectors.Err; err != nil {
		return f.unreadable("PodProtectors", err, "Ask for permission to list podprotectors in all namespaces, or use --as.")
	}
	all, late := protectorProblems(), map[string]time.Duration{}
	for i := range core.Cells.Value {
		late[core.Cells.Value[i].Name] = lateAfterDeadline + time.Duration(status.OfCell("", &core.Cells.Value[i], now).Deadline)*time.Second
	}
	for i := range core.Protectors.Value {
		p := status.Of(core.Name, &core.Protectors.Value[i], core.Cells.Value, now)
		for _, kind := range problemsOf(&p, late, now) {
			all[kind].names = append(all[kind].names, p.Namespace+"/"+p.Name)
		}
		if hasFormerDefaultOperations(&core.Protectors.Value[i]) {
			all[formerDefaultOperations].names = append(all[formerDefaultOperations].names, p.Namespace+"/"+p.Name)
		}
		for _, cell := range uncountedCells(&p, core.Cells.Value) {
			all[neverCounted].names = append(all[neverCounted].names, p.Namespace+"/"+p.Name+" in "+cell)
		}
	}
	var found []Finding
	for i := range all {
		if a := &all[i]; len(a.names) > 0 {
			found = append(found, f.finding(a.Verdict, fmt.Sprintf(a.found, joinNames(a.names)), a.do, a.runbook))
		}
	}
	found = append(found, checkDecreases(f, core)...)
	found = append(found, checkExpectations(f, core)...)
	return f.orOK(found, "None of %d needs attention.", len(core.Protectors.Value))
}

// Problems, in the order of their findings.
const (
	neverCounted = iota
	reservationsFull
	notSettled
	floorUnknown
	restoredUncounted
	cellDraining
	belowFloor
	sourceVanished
	noSuchCell
	formerDefaultOperations
	guardUnknown
	matchesNoPod
	scaledToZero
	problemCount
)

func protectorProblems() []protectorProblem {
	all := make([]protectorProblem, problemCount)
	all[neverCounted] = protectorProblem{
		Problem, "Never counted in a cell, so all removals of their pods there are denied: %s.",
		"Check that an aggregator runs for each cell: kubectl breakwater cells.", "cell-silent", nil,
	}
	all[reservationsFull] = protectorProblem{
		Problem, "As many removals are under way as maxConcurrentLag allows, so further ones are denied: %s.",
		"Check whether the cells are counted: kubectl breakwater status PROTECTOR.", "reservations-full", nil,
	}
	all[notSettled] = protectorProblem{
		Problem, "Reservations are open for more than a minute past the admissionDeadline, and consume budget: %s.",
		"Check whether the cells are counted: kubectl breakwater status PROTECTOR.", "reservations-not-settled", nil,
	}
	all[floorUnknown] = protectorProblem{
		Problem, "The number of expected pods is unknown, so all removals are denied: %s.",
		"Set spec.expectedReplicas, or set minAvailable to a number.", "reviews-undecided", nil,
	}
	all[restoredUncounted] = protectorProblem{
		Warning, "Restored, and not yet counted again in all cells. Removals are denied until then: %s.",
		"Wait for the admissionDeadline of the cells.", "protectors-vanished", nil,
	}
	all[cellDraining] = protectorProblem{Warning, "Removals are denied in a cell that is being drained: %s.", "See docs/concepts/topology.md.", "", nil}
	all[belowFloor] = protectorProblem{
		Warning, "Below their floor, because pods are not available: %s.", "Find out why: kubectl breakwater status PROTECTOR.", "floor-broken", nil,
	}
	all[sourceVanished] = protectorProblem{
		Warning, "Their workload vanished without a deletion: %s.",
		"Recreate it, or annotate the protector with " + v1alpha1.AnnotationConfirmRelease + "=true.", "sources-vanished", nil,
	}
	all[noSuchCell] = protectorProblem{
		Warning, "Counted in a cell whose Cell does not exist: %s.", "Recreate the Cell, or clear its counts: docs/concepts/topology.md.", "", nil,
	}
	all[formerDefaultOperations] = protectorProblem{
		Warning, "Label changes that take pods out of coverage are not guarded, because spec.operations lacks Relabel (an old default): %s.",
		"Add Relabel to spec.operations, or to the ProtectionPolicy: docs/how-to/upgrade.md.", "", nil,
	}
	all[guardUnknown] = protectorProblem{
		Warning, "Whether the clusters of their cells call the webhook for removals in their namespaces is unknown: %s.",
		"Grant the permission that kubectl breakwater status PROTECTOR names: run breakwater join again, or sync the chart breakwater, in the cluster " +
			"of the cell.", "cell-unguarded", nil,
	}
	all[matchesNoPod] = protectorProblem{
		Warning, "No cell has a pod that they select, so that nothing is protected: %s.",
		"Compare the selector (kubectl breakwater status PROTECTOR) with the labels of the pods: kubectl get pods -n NAMESPACE --show-labels.", "", nil,
	}
	all[scaledToZero] = protectorProblem{
		OK, "Their workloads are scaled to 0: nothing is protected until they are scaled up: %s.", "", "", nil,
	}
	return all
}

// problemsOf returns the problems of a protector. A reservation is late after the duration in late, by cell.
func problemsOf(p *status.Protector, late map[string]time.Duration, now time.Time) (kinds []int) {
	add := func(kind int, applies bool) {
		if applies {
			kinds = append(kinds, kind)
		}
	}
	refuses := func(why quota.Outcome) bool {
		return p.Refuses == string(why) || slices.ContainsFunc(p.Cells, func(s status.Contribution) bool { return s.Refuses == string(why) })
	}
	add(reservationsFull, refuses(quota.DeniedFull))
	add(notSettled, slices.ContainsFunc(p.Cells, func(s status.Contribution) bool {
		return slices.ContainsFunc(s.Reservations, func(r status.Reservation) bool { return r.Overdue && now.Sub(r.Since) > late[s.Cell] })
	}))
	add(floorUnknown, refuses(quota.DeniedFloorUnknown))
	add(restoredUncounted, refuses(quota.DeniedRestored))
	add(cellDraining, refuses(quota.DeniedDraining))
	add(belowFloor, p.BelowFloor() > 0 && len(kinds)+len(p.Uncounted) == 0) // pods that are not counted are not missing
	add(sourceVanished, slices.ContainsFunc(p.Conditions, func(c status.Condition) bool { return c.Reason == v1alpha1.ReasonSourceVanished }))
	add(guardUnknown, slices.Contains(p.Gaps, status.GapGuardUnknown))
	add(matchesNoPod, slices.Contains(p.Gaps, status.GapNoPods))
	add(scaledToZero, slices.Contains(p.Gaps, status.GapScaledToZero))
	add(noSuchCell, slices.ContainsFunc(p.Cells, func(s status.Contribution) bool { return s.NoCell }))
	return kinds
}

// hasFormerDefaultOperations reports whether spec.operations is the default from before Relabel existed. A user chose any other list.
func hasFormerDefaultOperations(p *v1alpha1.PodProtector) bool {
	listed := slices.Sorted(slices.Values(p.Spec.Operations))
	return slices.Equal(listed, []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict})
}

// uncountedCells returns the cells that can have pods of a protector but have never counted it.
func uncountedCells(p *status.Protector, cells []v1alpha1.Cell) (names []string) {
	for i := range cells {
		namespaces := cells[i].Spec.Namespaces
		if slices.Contains(p.Uncounted, cells[i].Name) && (len(namespaces) == 0 || slices.Contains(namespaces, p.Namespace)) {
			names = append(names, cells[i].Name)
		}
	}
	return names
}

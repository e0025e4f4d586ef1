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
	// has reports whether a protector has the problem.
	has func(p *status.Protector) bool
}

// checkProtectors judges the protectors of a core: those that deny removals although there may be budget, and those that need manual repair.
func checkProtectors(core *Core, now time.Time) []Finding {
	f := reporter{core.where(), "protectors"}
	if err := core.Protectors.Err; err != nil {
		return f.unreadable("PodProtectors", err, "Ask for permission to list podprotectors in all namespaces, or use --as.")
	}
	late := map[string]time.Duration{}
	for i := range core.Cells.Value {
		late[core.Cells.Value[i].Name] = lateAfterDeadline + core.Cells.Value[i].Spec.AdmissionDeadlineOrDefault()
	}
	kinds := protectorProblems(late, now)
	var uncounted, oldDefault []string
	names := make([][]string, len(kinds))
	for i := range core.Protectors.Value {
		p := status.Of(core.Name, &core.Protectors.Value[i], core.Cells.Value, now)
		name := p.Namespace + "/" + p.Name
		for _, cell := range uncountedCells(&p, core.Cells.Value) {
			uncounted = append(uncounted, name+" in "+cell)
		}
		if hasFormerDefaultOperations(&core.Protectors.Value[i]) {
			oldDefault = append(oldDefault, name)
		}
		for j := range kinds {
			if kinds[j].has(&p) {
				names[j] = append(names[j], name)
			}
		}
	}
	var found []Finding
	if len(uncounted) > 0 {
		found = append(found, f.finding(Problem, "Never counted in a cell, so all removals of their pods there are denied: "+joinNames(uncounted)+".",
			"Check that an aggregator runs for each cell: kubectl breakwater cells.", "cell-silent"))
	}
	for i, a := range kinds {
		if len(names[i]) > 0 {
			found = append(found, f.finding(a.Verdict, fmt.Sprintf(a.found, joinNames(names[i])), a.do, a.runbook))
		}
	}
	if len(oldDefault) > 0 {
		found = append(found, f.finding(Warning,
			"Label changes that take pods out of coverage are not guarded, because spec.operations lacks Relabel (an old default): "+joinNames(oldDefault)+".",
			"Add Relabel to spec.operations, or to the ProtectionPolicy: docs/how-to/upgrade.md.", ""))
	}
	found = append(found, checkDecreases(f, core)...)
	found = append(found, checkExpectations(f, core)...)
	return f.orOK(found, "None of %d needs attention.", len(core.Protectors.Value))
}

// denialProblems returns problems of protectors that deny removals. A reservation is late after the duration in late, by cell.
func denialProblems(late map[string]time.Duration, now time.Time) []protectorProblem {
	denies := func(why quota.Outcome) func(*status.Protector) bool {
		return func(p *status.Protector) bool {
			return p.Denies == string(why) || slices.ContainsFunc(p.Cells, func(c status.Contribution) bool { return c.Denies == string(why) })
		}
	}
	isLate := func(p *status.Protector) bool {
		return slices.ContainsFunc(p.Cells, func(c status.Contribution) bool {
			return slices.ContainsFunc(c.Reservations, func(r status.Reservation) bool { return r.Overdue && now.Sub(r.Since) > late[c.Cell] })
		})
	}
	return []protectorProblem{
		{
			Problem, "As many removals are under way as maxConcurrentLag allows, so further ones are denied: %s.",
			"Check whether the cells are counted: kubectl breakwater status PROTECTOR.", "reservations-full", denies(quota.DeniedFull),
		},
		{
			Problem, "Reservations are open for more than a minute past the admissionDeadline, and consume budget: %s.",
			"Check whether the cells are counted: kubectl breakwater status PROTECTOR.", "reservations-not-settled", isLate,
		},
		{
			Problem, "The number of expected pods is unknown, so all removals are denied: %s.",
			"Set spec.expectedReplicas, or set minAvailable to a number.", "reviews-undecided", denies(quota.DeniedFloorUnknown),
		},
		{
			Warning, "Restored, and not yet counted again in all cells. Removals are denied until then: %s.",
			"Wait for the admissionDeadline of the cells.", "protectors-vanished", denies(quota.DeniedRestored),
		},
		{
			Warning, "Removals are denied in a cell that is being drained: %s.", "See docs/concepts/topology.md.", "", denies(quota.DeniedDraining),
		},
	}
}

// protectorProblems returns all problems, in the order of their findings.
func protectorProblems(late map[string]time.Duration, now time.Time) []protectorProblem {
	denials := denialProblems(late, now)
	hasGap := func(gap status.Gap) func(*status.Protector) bool {
		return func(p *status.Protector) bool { return slices.Contains(p.Gaps, gap) }
	}
	return append(slices.Clone(denials), protectorProblem{
		Warning, "Below their floor, because pods are not available: %s.", "Find out why: kubectl breakwater status PROTECTOR.", "floor-broken",
		func(p *status.Protector) bool { // pods that are not counted are not missing
			return p.BelowFloor() > 0 && len(p.Uncounted) == 0 && !slices.ContainsFunc(denials, func(a protectorProblem) bool { return a.has(p) })
		},
	}, protectorProblem{
		Warning, "Their workload vanished without a deletion: %s.",
		"Recreate it, or annotate the protector with " + v1alpha1.AnnotationConfirmRelease + "=true.", "sources-vanished",
		func(p *status.Protector) bool {
			return slices.ContainsFunc(p.Conditions, func(c status.Condition) bool { return c.Reason == v1alpha1.ReasonSourceVanished })
		},
	}, protectorProblem{
		Warning, "Counted in a cell whose Cell does not exist: %s.", "Recreate the Cell, or clear its counts: docs/concepts/topology.md.", "",
		func(p *status.Protector) bool {
			return slices.ContainsFunc(p.Cells, func(c status.Contribution) bool { return c.NoCell })
		},
	}, protectorProblem{
		Warning, "Whether the clusters of their cells call the webhook for removals in their namespaces is unknown: %s.",
		"Grant the permission that kubectl breakwater status PROTECTOR names: run breakwater join again, or sync the chart breakwater, in the cluster " +
			"of the cell.", "cell-unguarded", hasGap(status.GapGuardUnknown),
	}, protectorProblem{
		Warning, "No cell has a pod that they select, so that nothing is protected: %s.",
		"Compare the selector (kubectl breakwater status PROTECTOR) with the labels of the pods: kubectl get pods -n NAMESPACE --show-labels.", "",
		hasGap(status.GapNoPods),
	}, protectorProblem{
		OK, "Their workloads are scaled to 0: nothing is protected until they are scaled up: %s.", "", "", hasGap(status.GapScaledToZero),
	})
}

// hasFormerDefaultOperations reports whether spec.operations is the default from before Relabel existed. A user chose any other list.
func hasFormerDefaultOperations(p *v1alpha1.PodProtector) bool {
	return slices.Equal(slices.Sorted(slices.Values(p.Spec.Operations)), []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict})
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

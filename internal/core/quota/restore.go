package quota

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// IsRestorePending reports whether a protector was recreated in place of one that vanished, and has not got its status back yet.
func IsRestorePending(p *v1alpha1.PodProtector) bool {
	_, recreated := p.Annotations[v1alpha1.AnnotationRestored]
	return recreated && !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionRestored)
}

// VoidCounts invalidates counts that belong to a history of the core that a restore discarded, or to another object. They may lack removals
// that were admitted since, or are in progress. Void keeps the expected replicas and their workloads, and the epoch and versions that
// later leaders must not fall behind.
func VoidCounts(a *v1alpha1.Aggregation) {
	kept := *a
	*a = v1alpha1.Aggregation{
		Void: true, CountedSpec: kept.CountedSpec,
		ExpectedReplicas: kept.ExpectedReplicas, Workloads: kept.Workloads, Target: kept.Target, SelectedSpec: kept.SelectedSpec,
		SnapshotVersion: kept.SnapshotVersion, SettledVersion: kept.SettledVersion, LastEventTime: kept.LastEventTime,
		Epoch: kept.Epoch, Holder: kept.Holder, TermVersion: kept.TermVersion,
	}
}

// VoidCountsUntil invalidates the counts of all leaderships that began at or before the given version of the core. p must be the caller's
// own copy. A version of 0 invalidates none.
func VoidCountsUntil(p *v1alpha1.PodProtector, version uint64) {
	for i := range p.Status.Cells {
		if a := &p.Status.Cells[i].Aggregation; BeganAtOrBefore(a, version) {
			VoidCounts(a)
		}
	}
}

// BeganAtOrBefore reports whether counts belong to a leadership that began at or before a version of the core. Version 0 is before all.
func BeganAtOrBefore(a *v1alpha1.Aggregation, version uint64) bool {
	return version > 0 && beganBy(a.TermVersion, version)
}

// beganBy reports whether a leadership began at or before a version of the core, or at an unknown one.
func beganBy(termVersion string, version uint64) bool {
	began, err := strconv.ParseUint(termVersion, 10, 64)
	return err != nil || began <= version
}

// RestoreLeap is the smallest increase of versions that counts as a restore while a process watches the core. A watch receives the current version
// at least once every few minutes. A process that was disconnected for about a day, from a core that writes 1,000 times a second, treats
// the core as restored.
const RestoreLeap = 100_000_000

// isOfLostHistory reports whether a leadership that began at a version of the core may have recorded something in a history that a restore
// discarded. restored is a version soon after the last restore, at which some process noticed it; 0 if there was none.
func isOfLostHistory(termVersion string, restored uint64) bool {
	if restored > RestoreLeap { // other processes noticed earlier, and began their leaderships
		restored -= RestoreLeap
	}
	return beganBy(termVersion, restored)
}

// RestoredCells returns the cells for a protector that is recreated: their reservations, void counts, and shares that must be recorded
// again.
func RestoredCells(last *v1alpha1.PodProtectorStatus) []v1alpha1.PodProtectorCell {
	cells := last.DeepCopy().Cells
	for i := range cells {
		VoidCounts(&cells[i].Aggregation)
		if cells[i].Share != nil {
			cells[i].Share.TermVersion = ""
		}
	}
	return cells
}

// deniesUntilRecount reports whether a protector admits nothing until it is counted again. A restore may have brought back an earlier floor of a
// share, and so a share does not even rely on a floor of zero (rule S5).
func deniesUntilRecount(p *v1alpha1.PodProtector, budget Budget) bool {
	return (budget.FloorUnknown || budget.Floor > 0 || p.Spec.ShareOf != nil) && needsRecount(p)
}

// needsRecount reports whether a protector still waits for counts after it or its core was restored.
func needsRecount(p *v1alpha1.PodProtector) bool {
	return IsRestorePending(p) || slices.ContainsFunc(p.Status.Cells, func(c v1alpha1.PodProtectorCell) bool { return c.Aggregation.Void })
}

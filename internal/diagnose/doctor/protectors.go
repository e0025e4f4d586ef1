package doctor

import (
	"fmt"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// lateBy is how long after its cell's admissionDeadline an open reservation counts as late.
const lateBy = time.Minute

// ailment is a problem that protectors can have. All protectors with the same problem form one finding.
type ailment struct {
	Verdict
	found, do, runbook string
	names              []string
}

// protectors judges the protectors of a core: those that deny removals although there may be budget, and those that need manual repair.
func protectors(core *Core, now time.Time) []Finding {
	f := finder{core.where(), "protectors"}
	if err := core.Protectors.Err; err != nil {
		return f.unread("PodProtectors", err, "Ask for the right to list podprotectors in all namespaces, or see --as.")
	}
	all, late := ailments(), map[string]time.Duration{}
	for i := range core.Cells.Value {
		late[core.Cells.Value[i].Name] = lateBy + time.Duration(status.OfCell("", &core.Cells.Value[i], now).Deadline)*time.Second
	}
	for i := range core.Protectors.Value {
		p := status.Of(core.Name, &core.Protectors.Value[i], core.Cells.Value, now)
		for _, kind := range ailmentsOf(&p, late, now) {
			all[kind].names = append(all[kind].names, p.Namespace+"/"+p.Name)
		}
		if hasFormerOperations(&core.Protectors.Value[i]) {
			all[formerOperations].names = append(all[formerOperations].names, p.Namespace+"/"+p.Name)
		}
		for _, cell := range uncounted(&p, core.Cells.Value) {
			all[neverCounted].names = append(all[neverCounted].names, p.Namespace+"/"+p.Name+" in "+cell)
		}
	}
	var found []Finding
	for i := range all {
		if a := &all[i]; len(a.names) > 0 {
			found = append(found, f.bad(a.Verdict, fmt.Sprintf(a.found, some(a.names)), a.do, a.runbook))
		}
	}
	found = append(found, decreases(f, core)...)
	return f.or(found, "None of %d needs a person.", len(core.Protectors.Value))
}

// Ailments, in the order of their findings.
const (
	neverCounted = iota
	full
	notSettled
	floorUnknown
	restoredVoid
	draining
	belowFloor
	sourceGone
	noSuchCell
	formerOperations
	ailmentCount
)

func ailments() []ailment {
	all := make([]ailment, ailmentCount)
	all[neverCounted] = ailment{
		Problem, "Never counted in a cell, where all removals of their pods are refused: %s.",
		"See that an aggregator runs for each cell: kubectl breakwater cells.", "cell-silent", nil,
	}
	all[full] = ailment{
		Problem, "As many removals under way as maxConcurrentLag allows, so that further ones are refused: %s.",
		"See whether the cells are counted: kubectl breakwater status PROTECTOR.", "reservations-full", nil,
	}
	all[notSettled] = ailment{
		Problem, "Reservations are open for longer than a minute after the admissionDeadline, and take budget: %s.",
		"See whether the cells are counted: kubectl breakwater status PROTECTOR.", "reservations-not-settled", nil,
	}
	all[floorUnknown] = ailment{
		Problem, "Nobody knows how many pods are expected, so that all removals are refused: %s.",
		"Set spec.expectedReplicas, or give minAvailable as a number.", "reviews-undecided", nil,
	}
	all[restoredVoid] = ailment{
		Warning, "Restored, and not counted anew in all cells, until when removals are refused: %s.",
		"Wait for the admissionDeadline of the cells.", "protectors-vanished", nil,
	}
	all[draining] = ailment{Warning, "Refused in a cell that is being taken out of service: %s.", "See docs/topology.md.", "", nil}
	all[belowFloor] = ailment{
		Warning, "Below their floor, by pods that are not available: %s.", "Find out why: kubectl breakwater status PROTECTOR.", "floor-broken", nil,
	}
	all[sourceGone] = ailment{
		Warning, "Their workload is gone without having been deleted: %s.", "Make it again, or delete the protector.", "sources-vanished", nil,
	}
	all[noSuchCell] = ailment{
		Warning, "Counted in a cell of which there is no Cell: %s.", "Create the Cell again, or clear it out: docs/topology.md.", "", nil,
	}
	all[formerOperations] = ailment{
		Warning, "Changes of labels that take their pods out of protection are not guarded, since spec.operations lacks Relabel, as older versions stored it: %s.",
		"Add Relabel to spec.operations, or to the ProtectionPolicy: docs/upgrade.md.", "", nil,
	}
	return all
}

// ailmentsOf returns the ailments of a protector. A reservation is late after the duration in late, by cell.
func ailmentsOf(p *status.Protector, late map[string]time.Duration, now time.Time) (kinds []int) {
	add := func(kind int, is bool) {
		if is {
			kinds = append(kinds, kind)
		}
	}
	refuses := func(why quota.Outcome) bool {
		return p.Refuses == string(why) || slices.ContainsFunc(p.Cells, func(s status.Share) bool { return s.Refuses == string(why) })
	}
	add(full, refuses(quota.RefusedFull))
	add(notSettled, slices.ContainsFunc(p.Cells, func(s status.Share) bool {
		return slices.ContainsFunc(s.Reservations, func(r status.Reservation) bool { return r.Overdue && now.Sub(r.Since) > late[s.Cell] })
	}))
	add(floorUnknown, refuses(quota.RefusedFloorUnknown))
	add(restoredVoid, refuses(quota.RefusedRestored))
	add(draining, refuses(quota.RefusedDraining))
	add(belowFloor, p.BelowFloor() > 0 && len(kinds)+len(p.Uncounted) == 0) // pods that are not counted are not missing
	add(sourceGone, slices.ContainsFunc(p.Conditions, func(c status.Condition) bool { return c.Reason == v1alpha1.ReasonSourceVanished }))
	add(noSuchCell, slices.ContainsFunc(p.Cells, func(s status.Share) bool { return s.NoCell }))
	return kinds
}

// hasFormerOperations reports whether spec.operations is the default from before Relabel existed. A user chose any other list.
func hasFormerOperations(p *v1alpha1.PodProtector) bool {
	listed := slices.Sorted(slices.Values(p.Spec.Operations))
	return slices.Equal(listed, []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict})
}

// uncounted returns the cells that can have pods of a protector but have never counted it.
func uncounted(p *status.Protector, cells []v1alpha1.Cell) (names []string) {
	for i := range cells {
		namespaces := cells[i].Spec.Namespaces
		if slices.Contains(p.Uncounted, cells[i].Name) && (len(namespaces) == 0 || slices.Contains(namespaces, p.Namespace)) {
			names = append(names, cells[i].Name)
		}
	}
	return names
}

package status

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

func (s *statusTree) addCells(root *plugin.Tree) {
	text := ""
	if len(s.Cells) == 0 {
		text = "no cell has counted its pods yet"
	}
	cells := root.Add(plugin.Strong.Of("cells"), text)
	for i := range s.Cells {
		s.addCell(cells, &s.Cells[i])
	}
	for _, name := range s.Uncounted {
		cells.Add(plugin.Soft.Of(name), "has never counted the protector's pods")
	}
}

func (s *statusTree) addCell(cells *plugin.Tree, c *status.Contribution) {
	parts := []string{fmt.Sprintf("%d of %d available", c.Available, c.Total), fmt.Sprintf("%d under way", c.UnderWay), "counts changed " + plugin.Ago(s.now, c.Counted)}
	if c.Heard != nil && !c.Stale {
		parts = append(parts, "aggregator reported "+plugin.Ago(s.now, *c.Heard))
	}
	head := plugin.Strong
	if c.Stale {
		head = plugin.Bad
	}
	one := cells.Add(head.Of(c.Cell), strings.Join(parts, ", "))
	if c.Stale {
		one.Add(plugin.Bad.Of("STALE"), s.staleText(c))
	}
	if c.NoCell {
		one.Add(plugin.Bad.Of("NO CELL"), "The Cell does not exist, but its pods are still counted: create it again, or clear the entry (docs/concepts/topology.md).")
	}
	if text := c.DiscountText(); text != "" {
		one.Add(plugin.Warn.Of(c.Discount), text)
	}
	if text := c.WorthlessText(); text != "" {
		one.Add(plugin.Bad.Of("COUNTS "+c.Worthless), text)
	}
	if c.FloorShare != nil {
		one.Add("share", floorShareText(c.FloorShare))
	}
	if c.Denies != "" && c.Denies != s.Denies {
		one.Add(plugin.Warn.Of("denies here"), c.Denies)
	}
	for _, problem := range c.Problems {
		one.Add(plugin.Bad.Of("problem"), problem)
	}
	if len(c.Retained) > 0 {
		one.Add(plugin.Warn.Of("deleted, and still expected"), strings.Join(c.Retained, ", "))
	}
	if c.InAdvance > 0 {
		one.Add(printable.Count(c.InAdvance, "reservation"), "made in advance for the next removals of a storm, or given back within seconds")
	}
	s.addReservations(one, c)
}

func (s *statusTree) staleText(c *status.Contribution) string {
	silent := "Its aggregator has never reported"
	if c.Heard != nil {
		silent = fmt.Sprintf("Its aggregator reported last %s, and becomes stale after %ds", plugin.Ago(s.now, *c.Heard), c.StaleAfter)
	}
	counts := fmt.Sprintf("its pods count with the last known numbers (%d available)", c.Available)
	if c.Discount == "Stale" {
		counts = "other cells count none of its pods"
	}
	return fmt.Sprintf("%s: %s, and none of its reservations is settled. See kubectl breakwater cells.", silent, counts)
}

// floorShareText describes the share on which a cell decides alone.
func floorShareText(f *status.FloorShare) string {
	text := fmt.Sprintf("keeps %d of the floor, and admits %s alone", f.Floor, printable.Count(f.Budget, "removal"))
	if f.UnderWay > 0 {
		text += fmt.Sprintf(" besides %d under way", f.UnderWay)
	}
	if f.Wanted > 0 {
		text += fmt.Sprintf("; it has denied %d and asks other cells for budget", f.Wanted)
	}
	return text
}

func (s *statusTree) addReservations(one *plugin.Tree, c *status.Contribution) {
	shown := c.Reservations
	if !s.showAll && len(shown) > maxShown {
		shown = shown[:maxShown]
	}
	widest := 0
	for _, r := range shown {
		widest = max(widest, len(r.Pod))
	}
	for _, r := range shown {
		if r.Pod == "" {
			one.Add(printable.Count(r.Count, "pod"), fmt.Sprintf("admitted %s to %s, merged: pod names are not kept", plugin.Ago(s.now, r.Since), plugin.Ago(s.now, *cmp.Or(r.Until, &r.Since))))
			continue
		}
		one.Add(fmt.Sprintf("%-*s", widest, r.Pod), s.reservationText(&r))
	}
	if more := len(c.Reservations) - len(shown); more > 0 {
		one.Add(plugin.Soft.Of(fmt.Sprintf("and %d more", more)), "-o wide shows all")
	}
	if len(c.Reservations) > 0 && s.requesters == nil && !s.hideAuditHint {
		one.Add(plugin.Soft.Of("who asked"), "not recorded with reservations; use --audit-log FILE of this cell's API server")
	}
}

func (s *statusTree) reservationText(r *status.Reservation) string {
	text := fmt.Sprintf("%-6s admitted %s", r.Operation, plugin.Ago(s.now, r.Since))
	if user := s.requesters[s.Namespace+"/"+r.Pod]; user != "" {
		text += ", asked by " + user
	} else if s.requesters != nil {
		text += ", asked by a user whom the audit log does not name"
	}
	if r.Accounted {
		text += ", not available now, so that it consumes no further budget"
	}
	if r.Overdue {
		text += "; past the admissionDeadline: released when the aggregator has seen the pod alive"
	}
	return text
}

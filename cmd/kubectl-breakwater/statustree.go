package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// lately is the age up to which denials are shown with a protector. API servers keep events for that long by default.
const lately = time.Hour

// mostShown is how many reservations of a cell, denials or domains are shown by default.
const mostShown = 8

// statusTree is the tree view of a protector.
type statusTree struct {
	*status.Protector
	denials []denial.Denial
	// unread is the error of reading the denials.
	unread error
	// who maps pods, by namespace/name, to the users who requested their removal. It is nil if no audit log was read.
	who map[string]string
	// quiet omits the hint about the audit log.
	quiet bool
	// whole shows all reservations.
	whole    bool
	now      time.Time
	width    int
	coloured bool
}

func (s *statusTree) text() string {
	title := strong.on(s.Namespace+"/"+s.Name, s.coloured)
	if s.Core != "" {
		title += " in core " + s.Core
	}
	var from []string
	if s.Source != "" {
		from = append(from, "of "+s.Source)
	}
	if s.Policy != "" {
		from = append(from, "by "+s.Policy)
	}
	from = append(from, "made "+ago(s.now, s.Created))
	head := title + "  " + soft.on(strings.Join(from, ", "), s.coloured) + "\n"
	root := &node{}
	s.numbers(root)
	s.cells(root)
	s.refusals(root)
	s.spread(root)
	s.conditions(root)
	return head + s.verdict() + s.decrease() + root.lines(s.width, s.coloured)
}

// decrease describes a requested decrease that has not taken effect, and how to confirm it.
func (s *statusTree) decrease() string {
	d := s.DecreasePending
	if d == nil {
		return ""
	}
	text := warn.on(fmt.Sprintf("Decrease pending since %s: %s.", age(s.now, d.Since), d.Reason), s.coloured) + "\n"
	sentences := []string{d.Asks() + "."}
	if d.IsHeld() {
		sentences = append(sentences, "The floor stays in force. To confirm the decrease: "+brake.Command(s.Namespace, s.Name))
	}
	for _, sentence := range sentences {
		for _, line := range wrap(sentence, s.width, 0) {
			text += "  " + line + "\n"
		}
	}
	return text
}

// verdict describes the most important result.
func (s *statusTree) verdict() string {
	if s.Refuses == "" {
		word := fmt.Sprintf("Allows %s now.", count(s.Allowed, "removal"))
		if s.Floor.Pods != nil && *s.Floor.Pods == 0 {
			word = "Refuses nothing: its floor is 0."
		}
		return good.on(word, s.coloured) + "\n"
	}
	why, do := verdictWords(s.Protector)
	text := bad.on("Refuses the next removal: "+s.Refuses+".", s.coloured) + "\n"
	for _, sentence := range []string{why, do} {
		for _, line := range wrap(sentence, s.width, 0) {
			text += "  " + line + "\n"
		}
	}
	return text
}

func (s *statusTree) numbers(root *node) {
	line := func(name string, value, text string) {
		root.add(cell{fmt.Sprintf("%-10s%5s", name, value), plain}, text)
	}
	line("floor", number(s.Floor.Pods), floorText(&s.Floor))
	line("available", strconv.Itoa(s.Available), fmt.Sprintf("of %s that its selector chooses, by criterion %s", count(s.Total, "pod"), s.Criterion))
	line("under way", strconv.Itoa(s.UnderWay), "removals that were admitted and are not yet seen")
	if s.Budget != nil {
		text := fmt.Sprintf("%d available - %d under way - %d floor", s.Available, s.UnderWay, *s.Floor.Pods)
		if s.Allowed != max(0, *s.Budget) {
			text += fmt.Sprintf("; %s may go at once", count(s.Allowed, "pod"))
		}
		line("budget", strconv.Itoa(*s.Budget), text)
	}
}

func (s *statusTree) cells(root *node) {
	text := ""
	if len(s.Cells) == 0 {
		text = "none has counted its pods yet"
	}
	cells := root.add(cell{"cells", strong}, text)
	for i := range s.Cells {
		s.cell(cells, &s.Cells[i])
	}
	for _, name := range s.Uncounted {
		cells.add(cell{name, soft}, "has never counted pods of it")
	}
}

func (s *statusTree) cell(cells *node, c *status.Share) {
	parts := []string{fmt.Sprintf("%d of %d available", c.Available, c.Total), fmt.Sprintf("%d under way", c.UnderWay), "counts changed " + ago(s.now, c.Counted)}
	if c.Heard != nil && !c.Stale {
		parts = append(parts, "aggregator heard "+ago(s.now, *c.Heard))
	}
	one := cells.add(cell{c.Cell, strong}, strings.Join(parts, ", "))
	if c.Stale {
		one.head.as = bad
		one.add(cell{"STALE", bad}, s.staleText(c))
	}
	if c.NoCell {
		one.add(cell{"NO CELL", bad}, "There is no Cell of this name any more, and its pods go on being counted: make it again, or clear the entry (docs/topology.md).")
	}
	if text := discountText(c); text != "" {
		one.add(cell{c.Discount, warn}, text)
	}
	if text := worthlessText(c); text != "" {
		one.add(cell{"COUNTS " + c.Worthless, bad}, text)
	}
	if c.Refuses != "" && c.Refuses != s.Refuses {
		one.add(cell{"refuses here", warn}, c.Refuses)
	}
	for _, problem := range c.Problems {
		one.add(cell{"problem", bad}, problem)
	}
	if len(c.Retained) > 0 {
		one.add(cell{"gone, and still expected", warn}, strings.Join(c.Retained, ", "))
	}
	s.reservations(one, c)
}

func (s *statusTree) staleText(c *status.Share) string {
	silent := "Its aggregator has never reported"
	if c.Heard != nil {
		silent = fmt.Sprintf("Its aggregator was last heard %s, and %ds make it stale", ago(s.now, *c.Heard), c.StaleAfter)
	}
	counts := fmt.Sprintf("its %d pods count as they were counted last", c.Available)
	if c.Discount == "Stale" {
		counts = "its pods count for nothing in other cells"
	}
	return fmt.Sprintf("%s: %s, and no reservation of it is settled. See kubectl breakwater cells.", silent, counts)
}

func discountText(c *status.Share) string {
	switch c.Discount {
	case "Draining":
		return "The Cell is being deleted: its pods count for nothing in other cells, and nothing more is admitted in it."
	case "Cleared":
		return "An operator has cleared its counts and reservations: it is counted anew after its admissionDeadline."
	}
	return ""
}

func worthlessText(c *status.Share) string {
	switch c.Worthless {
	case status.WorthlessVoid:
		return "The protector or its core was restored: its pods count for nothing until the aggregator has counted anew."
	case status.WorthlessOtherSpec:
		return "They were made by another spec: its pods count for nothing until the aggregator has counted by this one."
	case status.WorthlessUncounted:
		return "The aggregator cannot count: see the problem and the conditions."
	}
	return ""
}

func (s *statusTree) reservations(one *node, c *status.Share) {
	shown := c.Reservations
	if !s.whole && len(shown) > mostShown {
		shown = shown[:mostShown]
	}
	widest := 0
	for _, r := range shown {
		widest = max(widest, len(r.Pod))
	}
	for _, r := range shown {
		if r.Pod == "" {
			one.add(cell{fmt.Sprintf("%d pods", r.Count), plain}, fmt.Sprintf("admitted %s to %s, merged: their names are not kept", ago(s.now, r.Since), ago(s.now, *cmp.Or(r.Until, &r.Since))))
			continue
		}
		one.add(cell{fmt.Sprintf("%-*s", widest, r.Pod), plain}, s.reservation(&r))
	}
	if more := len(c.Reservations) - len(shown); more > 0 {
		one.add(cell{fmt.Sprintf("and %d more", more), soft}, "-o wide shows all")
	}
	if len(c.Reservations) > 0 && s.who == nil && !s.quiet {
		one.add(cell{"who asked", soft}, "is not recorded with reservations: --audit-log FILE, of this cell's apiserver, tells")
	}
}

func (s *statusTree) reservation(r *status.Reservation) string {
	text := fmt.Sprintf("%-6s admitted %s", r.Operation, ago(s.now, r.Since))
	if user := s.who[s.Namespace+"/"+r.Pod]; user != "" {
		text += ", asked by " + user
	} else if s.who != nil {
		text += ", asked by somebody whom the audit log does not name"
	}
	if r.Accounted {
		text += ", and not available now, so that it costs nothing more"
	}
	if r.Overdue {
		text += "; past the admissionDeadline: given back as soon as the aggregator has seen the pod alive"
	}
	return text
}

func (s *statusTree) refusals(root *node) {
	if s.unread != nil {
		root.add(cell{"refused lately", strong}, fmt.Sprintf("not known: %v", s.unread))
		return
	}
	if len(s.denials) == 0 {
		root.add(cell{"refused lately", strong}, "nothing in the last hour, as far as events tell")
		return
	}
	all := root.add(cell{"refused lately", strong}, "in the last hour, as far as events tell")
	for i := range s.denials[:min(len(s.denials), mostShown)] {
		d := &s.denials[i]
		word := "refused"
		if d.Forced {
			word = "FORCED"
		}
		parts := []string{cmp.Or(d.Verdict, "?")}
		if d.Cell != "" {
			parts = append(parts, "in "+d.Cell)
		}
		if d.User != "" {
			parts = append(parts, "asked by "+d.User)
		}
		parts = append(parts, podsText(d, 3), "last "+ago(s.now, d.Last))
		all.add(cell{fmt.Sprintf("%s %s", countText(d), word), warn}, strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", "))
	}
	if more := len(s.denials) - mostShown; more > 0 {
		all.add(cell{fmt.Sprintf("and %d more kinds", more), soft}, "kubectl breakwater denials")
	}
}

func (s *statusTree) spread(root *node) {
	if s.Spread == nil {
		return
	}
	asked := []string{}
	if s.Spread.MaxSharePercent > 0 {
		asked = append(asked, fmt.Sprintf("at most %d%% in one", s.Spread.MaxSharePercent))
	}
	if s.Spread.MinDomains > 0 {
		asked = append(asked, fmt.Sprintf("at least %d domains", s.Spread.MinDomains))
	}
	if s.Spread.TolerateDomainLoss {
		asked = append(asked, "the loss of any is to be tolerated")
	}
	spread := root.add(cell{"spread", strong}, strings.Join(append([]string{"over " + s.Spread.TopologyKey}, asked...), ", "))
	most := len(s.Spread.Domains)
	if !s.whole {
		most = min(most, 2*mostShown)
	}
	var parts []string
	for _, d := range s.Spread.Domains[:most] {
		parts = append(parts, fmt.Sprintf("%s %d", cmp.Or(d.Name, `""`), d.Pods))
	}
	if more := len(s.Spread.Domains) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	if s.Spread.OtherDomains > 0 {
		parts = append(parts, fmt.Sprintf("%d in %d smaller ones", s.Spread.OtherPods, s.Spread.OtherDomains))
	}
	if s.Spread.Unknown > 0 {
		parts = append(parts, fmt.Sprintf("%d in none that is known", s.Spread.Unknown))
	}
	spread.add(cell{"pods", plain}, cmp.Or(strings.Join(parts, ", "), "none"))
	spread.add(cell{"left", plain}, fmt.Sprintf("%d are sure to be left if the domain is lost whose loss costs most", s.Spread.LeftAfterLoss))
}

// conditions adds the conditions last. A bad condition includes its message.
func (s *statusTree) conditions(root *node) {
	if len(s.Conditions) == 0 {
		return
	}
	all := root.add(cell{"conditions", strong}, "")
	for _, c := range s.Conditions {
		as, text := good, fmt.Sprintf("%s %s, since %s", c.Status, c.Reason, age(s.now, c.Since))
		if !c.Good {
			as, text = bad, text+": "+c.Message
		}
		all.add(cell{c.Type, as}, text)
	}
}

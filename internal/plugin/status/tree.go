package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

// recentPeriod is the age up to which denials are shown with a protector. API servers keep events for that long by default.
const recentPeriod = time.Hour

// maxShown is how many reservations of a cell, denials or domains are shown by default.
const maxShown = 8

// statusTree is the tree view of a protector.
type statusTree struct {
	*status.Protector
	denials []denial.Denial
	// denialsErr is the error of reading the denials.
	denialsErr error
	// requesters maps pods, by namespace/name, to the users who requested their removal. It is nil if no audit log was read.
	requesters map[string]string
	// hideAuditHint omits the hint about the audit log.
	hideAuditHint bool
	// showAll shows all reservations.
	showAll bool
	now     time.Time
	width   int
}

func (s *statusTree) text() string {
	title := plugin.Strong.Of(s.Namespace + "/" + s.Name)
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
	from = append(from, "created "+plugin.Ago(s.now, s.Created))
	head := title + "  " + plugin.Soft.Of(strings.Join(from, ", ")) + "\n"
	root := &plugin.Tree{}
	s.addNumbers(root)
	s.addCells(root)
	s.addDenials(root)
	s.addSpread(root)
	s.addConditions(root)
	return head + s.gapsText() + s.verdictText() + s.expectationText() + s.decreaseText() + root.Lines(s.width)
}

// decreaseText describes a requested decrease that has not taken effect, and how to confirm it.
func (s *statusTree) decreaseText() string {
	d := s.DecreasePending
	if d == nil {
		return ""
	}
	text := plugin.Warn.Of(fmt.Sprintf("Decrease pending since %s: %s.", plugin.Age(s.now, d.Since), d.Reason)) + "\n" + s.indented(d.Summary()+".")
	if d.IsHeld() {
		text += s.indented("The floor stays in force. To confirm the decrease: " + brake.Command(s.Namespace, s.Name))
	}
	return text
}

// expectationText describes a floor that may be too low, because fewer pods are expected than are available.
func (s *statusTree) expectationText() string {
	if s.AboveExpected == 0 {
		return ""
	}
	return plugin.Bad.Of(fmt.Sprintf("Expects too few pods: %s available, and %d expected.", isOrAre(s.Available), s.Available-s.AboveExpected)) + "\n" +
		s.indented("The floor may be too low. The condition ExpectationBelowPods has the cause and the remedy.")
}

// gapsText describes why the protector looks effective and is not, and what to do.
func (s *statusTree) gapsText() (text string) {
	for _, gap := range s.Gaps {
		words, style := gapText(gap)
		text += style.Of(strings.ToUpper(words[:1])+words[1:]+".") + "\n" + s.indented(s.MessageOf(gap.Condition()))
	}
	return text
}

// verdictText describes the most important result.
func (s *statusTree) verdictText() string {
	if s.Denies == "" {
		word := fmt.Sprintf("Allows %s now.", printable.Count(s.Allowed, "removal"))
		if s.Floor.Pods != nil && *s.Floor.Pods == 0 {
			word = "Denies nothing: its floor is 0."
		}
		switch {
		case s.AboveExpected > 0:
			return plugin.Warn.Of(word) + "\n"
		case len(s.Gaps) > 0:
			return word + "\n"
		}
		return plugin.Good.Of(word) + "\n"
	}
	why, do := denialAdvice(s.Protector)
	if s.NeedsAllPods() {
		return plugin.Good.Of("Denies every removal, by design: its floor is all of its pods.") + "\n" + s.indented(why) + s.indented(do)
	}
	return plugin.Bad.Of("Denies the next removal: "+s.Denies+".") + "\n" + s.indented(why) + s.indented(do)
}

func (s *statusTree) indented(sentence string) string {
	return "  " + strings.Join(plugin.Wrap(sentence, s.width, 0), "\n  ") + "\n"
}

func (s *statusTree) addNumbers(root *plugin.Tree) {
	line := func(name string, value, text string) {
		root.Add(fmt.Sprintf("%-10s%5s", name, value), text)
	}
	line("floor", plugin.NumberText(s.Floor.Pods), s.Floor.Text())
	line("available", strconv.Itoa(s.Available), fmt.Sprintf("of %s that its selector matches, by criterion %s", printable.Count(s.Total, "pod"), s.Criterion))
	line("under way", strconv.Itoa(s.UnderWay), "admitted removals that no aggregator has seen yet")
	if s.Budget != nil {
		text := fmt.Sprintf("%d available - %d under way - %d floor", s.Available, s.UnderWay, *s.Floor.Pods)
		if s.Allowed != max(0, *s.Budget) {
			text += fmt.Sprintf("; %s may be removed at once", printable.Count(s.Allowed, "pod"))
		}
		line("budget", strconv.Itoa(*s.Budget), text)
	}
}

func (s *statusTree) addDenials(root *plugin.Tree) {
	if s.denialsErr != nil {
		root.Add(plugin.Strong.Of("recent denials"), fmt.Sprintf("unknown: %v", s.denialsErr))
		return
	}
	if len(s.denials) == 0 {
		root.Add(plugin.Strong.Of("recent denials"), "none in the last hour, according to events")
		return
	}
	all := root.Add(plugin.Strong.Of("recent denials"), "in the last hour, according to events")
	for i := range s.denials[:min(len(s.denials), maxShown)] {
		d := &s.denials[i]
		word := "denied"
		if d.Forced {
			word = "OVERRIDDEN"
		}
		parts := []string{cmp.Or(d.Verdict, "?")}
		if d.Cell != "" {
			parts = append(parts, "in "+d.Cell)
		}
		if d.User != "" {
			parts = append(parts, "asked by "+d.User)
		}
		parts = append(parts, podsText(d, 3), "last "+plugin.Ago(s.now, d.Last))
		all.Add(plugin.Warn.Of(fmt.Sprintf("%s %s", countText(d), word)), strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", "))
	}
	if slices.ContainsFunc(s.denials, func(d denial.Denial) bool { return d.User == removal.GarbageCollector && !d.Forced }) {
		all.Add(plugin.Warn.Of("owner deleted"), "the garbage collector removes pods whose owner was deleted or is being deleted: if that is an accident, create "+
			"the owner again; kubectl breakwater adopt, in the cell's cluster, shows which pods it can adopt")
	}
	if more := len(s.denials) - maxShown; more > 0 {
		all.Add(plugin.Soft.Of("and "+printable.Count(more, "more group")), "kubectl breakwater denials")
	}
}

func (s *statusTree) addSpread(root *plugin.Tree) {
	if s.Spread == nil {
		return
	}
	spread := root.Add(plugin.Strong.Of("spread"), strings.Join(append([]string{"over " + s.Spread.TopologyKey}, s.Spread.Limits()...), ", "))
	limit := len(s.Spread.Domains)
	if !s.showAll {
		limit = min(limit, 2*maxShown)
	}
	var parts []string
	for _, d := range s.Spread.Domains[:limit] {
		parts = append(parts, fmt.Sprintf("%s %d", cmp.Or(d.Name, `""`), d.Pods))
	}
	if more := len(s.Spread.Domains) - limit; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	if s.Spread.OtherDomains > 0 {
		parts = append(parts, fmt.Sprintf("%d in %s", s.Spread.OtherPods, printable.Count(s.Spread.OtherDomains, "smaller domain")))
	}
	if s.Spread.Unknown > 0 {
		parts = append(parts, fmt.Sprintf("%d in no known domain", s.Spread.Unknown))
	}
	spread.Add("pods", cmp.Or(strings.Join(parts, ", "), "none"))
	spread.Add("left", "at least "+printable.Count(s.Spread.LeftAfterLoss, "pod")+" if any one domain is lost")
}

// addConditions adds the conditions last. A bad condition includes its message.
func (s *statusTree) addConditions(root *plugin.Tree) {
	if len(s.Conditions) == 0 {
		return
	}
	all := root.Add(plugin.Strong.Of("conditions"), "")
	for _, c := range s.Conditions {
		as, text := plugin.Good, fmt.Sprintf("%s %s, since %s", c.Status, c.Reason, plugin.Age(s.now, c.Since))
		if !c.Good {
			as, text = plugin.Bad, text+": "+c.Message
		}
		all.Add(as.Of(c.Type), text)
	}
}

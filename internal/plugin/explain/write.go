package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

func explanationText(e explain.Explanation, wide bool) string {
	var b strings.Builder
	where := "cell " + e.Cell
	if e.Cell == "" {
		where = "an unknown cell"
	}
	fmt.Fprintf(&b, "%s pod %s/%s in %s: %s\n", e.Operation, e.Namespace, e.Pod, where, verdictText(e))
	if e.Message != "" {
		fmt.Fprintf(&b, "\n%s\n", plugin.WrapText(e.Message, "  "))
	}
	if e.Answer != nil {
		fmt.Fprintf(&b, "\nAnswer of the API server: %s\n", answerText(e))
	}
	b.WriteString("\n" + plugin.Strong.Of("Webhooks") + "\n")
	for _, line := range webhookLines(e) {
		b.WriteString("  " + line + "\n")
	}
	if e.Passes != "" {
		b.WriteString("\nThe removal consumes no budget of any protector: " + e.Passes + "\n")
	}
	switch {
	case len(e.Protectors) > 0:
		b.WriteString("\n" + protectorsTable(e))
		for _, p := range e.Protectors {
			b.WriteString(protectorText(p, wide))
		}
	case e.CoresUnread != "":
		b.WriteString("\n" + plugin.WrapText("The protectors are unknown: "+e.CoresUnread, "") + "\n")
	default:
		b.WriteString("\nNo protector covers the pod.\n")
	}
	if len(e.Remedies) > 0 {
		b.WriteString("\n" + plugin.Strong.Of("Remedies") + "\n")
		for _, remedy := range e.Remedies {
			b.WriteString(plugin.IndentHanging(remedy) + "\n")
		}
	}
	for _, note := range e.Notes {
		b.WriteString("\n" + plugin.WrapText("note: "+note, "") + "\n")
	}
	return b.String()
}

func verdictText(e explain.Explanation) string {
	switch {
	case e.IsUnknown() && e.Answer != nil && e.Answer.Allowed:
		return plugin.Good.Of("allowed, as the API server answers")
	case e.IsUnknown() && e.Answer != nil:
		return plugin.Bad.Of("denied, as the API server answers")
	case e.IsUnknown():
		return plugin.Warn.Of("unknown, because no core cluster could be read")
	case e.CoresUnread != "" && e.Asked == explain.AskedNo:
		return plugin.Warn.Of("allowed: the API server does not call Breakwater")
	case e.Asked == explain.AskedNo:
		return plugin.Warn.Of("allowed: the API server does not call Breakwater") + fmt.Sprintf(" (the webhook would answer %s)", e.Verdict)
	case e.Asked == explain.AskedUnknown && !e.Allowed:
		return plugin.Bad.Of("denied if the API server calls Breakwater") + fmt.Sprintf(" (%s)", e.Verdict)
	case e.Verdict == removal.VerdictDryRun:
		return plugin.Good.Of("allowed")
	case e.Allowed:
		return plugin.Good.Of("allowed") + fmt.Sprintf(" (%s)", e.Verdict)
	default:
		return plugin.Bad.Of("denied") + fmt.Sprintf(" (%s)", e.Verdict)
	}
}

func answerText(e explain.Explanation) string {
	a, text := e.Answer, "allowed"
	if !a.Allowed {
		text = fmt.Sprintf("denied with code %d", a.Code)
	}
	if a.OfBudget {
		text += " by a PodDisruptionBudget; Breakwater allows the removal"
	}
	switch {
	case a.Agrees:
		return text + ", as explained"
	case e.IsUnknown() && a.Allowed:
		return text
	case e.IsUnknown():
		return text + "\n" + plugin.WrapText(a.Message, "  ")
	}
	return plugin.Bad.Of(text+", which differs from the explanation") + "\n" + plugin.WrapText(a.Message, "  ")
}

func webhookLines(e explain.Explanation) (lines []string) {
	for _, hook := range e.Hooks {
		line := fmt.Sprintf("%s of %s, failurePolicy %s", hook.Name, hook.Configuration, hook.FailurePolicy)
		if hook.SkipReason != "" {
			line = "not " + line + ": " + hook.SkipReason
		}
		// The match conditions of Breakwater exclude only requests that consume no budget.
		conditions := slices.DeleteFunc(slices.Clone(hook.Conditions), func(name string) bool { return name == "costs-availability" || name == "changes-the-spec" })
		if len(conditions) > 0 && hook.SkipReason == "" {
			line += ", unless its matchConditions exclude the request: " + strings.Join(conditions, ", ")
		}
		lines = append(lines, line)
	}
	switch {
	case e.Cell == "":
		lines = append(lines, "unknown, because the cell is")
	case e.Asked == explain.AskedUnknown:
		lines = append(lines, "unknown: the webhook configurations could not be read")
	case len(lines) == 0:
		lines = append(lines, "no webhook: no ValidatingWebhookConfiguration of this cluster calls "+webhookconfig.RemovalPath(e.Cell))
	}
	return lines
}

func protectorsTable(e explain.Explanation) string {
	t := plugin.NewTable("PROTECTOR", "FLOOR", "AVAILABLE", "UNDER WAY", "LEFT", "SAYS")
	t.AlignRight("FLOOR", "AVAILABLE", "UNDER WAY", "LEFT")
	for _, p := range e.Protectors {
		floor, outcome, as := fmt.Sprint(p.Floor), "not charged", plugin.Plain
		if !p.FloorKnown {
			floor = "unknown"
		}
		switch {
		case p.Denies != "":
			outcome, as = string(p.Outcome), plugin.Bad
		case p.Charged:
			outcome, as = "yes", plugin.Good
		}
		t.Add(p.Core+"/"+p.Namespace+"/"+p.Name, floor, fmt.Sprint(p.Available),
			fmt.Sprint(p.UnderWay), fmt.Sprint(p.Left), as.Of(outcome))
	}
	return t.Text()
}

func protectorText(p explain.Protector, wide bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", plugin.Strong.Of(p.Namespace+"/"+p.Name))
	line := func(format string, of ...any) { b.WriteString(plugin.IndentHanging(fmt.Sprintf(format, of...)) + "\n") }
	line("the pod %s", p.Why)
	if p.FloorKnown {
		line("floor %d: %s", p.Floor, p.FloorFrom)
	} else {
		line("floor unknown: %s of an unknown number of pods", p.FloorFrom)
	}
	if p.Share != nil && p.Share.Known {
		line("the cell's share of floor %d is %d; other cells have budget for %s, which moves within seconds while the core is reachable",
			p.Share.Floor, p.Floor, printable.Count(p.Share.Elsewhere, "further removal"))
	}
	if d := p.DecreasePending; d != nil {
		line("decrease pending (%s): %s", d.Reason, d.Summary())
	}
	if p.Charged || wide {
		for _, c := range p.Cells {
			line("%s", cellText(c))
		}
	}
	if p.Domain != "" {
		line("domain of the pod: %s", p.Domain)
	}
	if p.AtMostUnderWay > 0 {
		line("at most %s under way at a time", printable.Count(p.AtMostUnderWay, "removal"))
	}
	if p.Denies != "" {
		line("it %s", p.Denies)
	}
	return b.String()
}

func cellText(c explain.Cell) string {
	text := fmt.Sprintf("cell %s: %d counted, %d under way, worth %d", c.Name, c.Counted, c.UnderWay, c.Worth)
	if c.Uncounted {
		text += ", not counted with the current spec"
	}
	if c.Discount != "" {
		text += fmt.Sprintf(", discounted (%s)", c.Discount)
	}
	if c.SilentFor != nil {
		text += fmt.Sprintf(", STALE: its aggregator has not reported for %s (whenStale %s)", c.SilentFor.Round(time.Second), c.WhenStale)
	}
	return text
}

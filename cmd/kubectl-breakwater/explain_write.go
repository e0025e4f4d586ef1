package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
)

// explained formats an explanation as text.
func explained(e explain.Explanation, wide, coloured bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s pod %s/%s in cell %s: %s\n", e.Operation, e.Namespace, e.Pod, e.Cell, verdictOf(e, coloured))
	if e.Message != "" {
		fmt.Fprintf(&b, "\n%s\n", wrapped(e.Message, "  ", 100))
	}
	if e.Answer != nil {
		fmt.Fprintf(&b, "\nThe apiserver was asked: %s\n", answerOf(*e.Answer, coloured))
	}
	b.WriteString("\n" + strong.on("Asked", coloured) + "\n")
	for _, line := range asked(e) {
		b.WriteString("  " + line + "\n")
	}
	if e.Passes != "" {
		b.WriteString("\nThe pod costs nothing, whoever protects it: " + e.Passes + "\n")
	}
	if len(e.Protectors) > 0 {
		b.WriteString("\n" + protectors(e, coloured))
		for _, p := range e.Protectors {
			b.WriteString(details(p, wide, coloured))
		}
	} else {
		b.WriteString("\nNo protector covers the pod.\n")
	}
	if len(e.Remedies) > 0 {
		b.WriteString("\n" + strong.on("What would let it go", coloured) + "\n")
		for _, remedy := range e.Remedies {
			b.WriteString(hanging(remedy) + "\n")
		}
	}
	for _, note := range e.Notes {
		b.WriteString("\n" + wrapped("note: "+note, "", 100) + "\n")
	}
	return b.String()
}

func verdictOf(e explain.Explanation, coloured bool) string {
	switch {
	case e.Asked == explain.AskedNo:
		return warn.on("may go, since Breakwater is not asked", coloured) + fmt.Sprintf(" (its answer would be %s)", e.Verdict)
	case e.Asked == explain.AskedUnknown && !e.Allowed:
		return bad.on("refused if Breakwater is asked", coloured) + fmt.Sprintf(" (%s)", e.Verdict)
	case e.Verdict == removal.VerdictDryRun:
		return good.on("may go", coloured)
	case e.Allowed:
		return good.on("may go", coloured) + fmt.Sprintf(" (%s)", e.Verdict)
	default:
		return bad.on("refused", coloured) + fmt.Sprintf(" (%s)", e.Verdict)
	}
}

func answerOf(a explain.Answer, coloured bool) string {
	text := "it may go"
	if !a.Allowed {
		text = fmt.Sprintf("refused with %d", a.Code)
	}
	if a.OfBudget {
		text += " by a PodDisruptionBudget, and let through by Breakwater"
	}
	if a.Agrees {
		return text + ", as explained"
	}
	return bad.on(text+", which is not as explained", coloured) + "\n" + wrapped(a.Message, "  ", 100)
}

func asked(e explain.Explanation) (lines []string) {
	for _, hook := range e.Hooks {
		line := fmt.Sprintf("%s of %s, failurePolicy %s", hook.Name, hook.Configuration, hook.FailurePolicy)
		if hook.Leaves != "" {
			line = "not " + line + ": " + hook.Leaves
		}
		if others := conditionsOfOthers(hook); len(others) > 0 && hook.Leaves == "" {
			line += ", unless its matchConditions leave it out: " + strings.Join(others, ", ")
		}
		lines = append(lines, line)
	}
	switch {
	case e.Asked == explain.AskedUnknown:
		lines = append(lines, "it could not be read who is asked")
	case len(lines) == 0:
		lines = append(lines, "nobody: no ValidatingWebhookConfiguration of this cluster leads to "+webhookconfig.Path(e.Cell))
	}
	return lines
}

// conditionsOfOthers drops the match conditions of Breakwater, which exclude only requests that consume no budget.
func conditionsOfOthers(hook webhookconfig.Hook) (names []string) {
	for _, name := range hook.Conditions {
		if name != "costs-availability" && name != "changes-the-spec" {
			names = append(names, name)
		}
	}
	return names
}

func protectors(e explain.Explanation, coloured bool) string {
	t := newTable("PROTECTOR", "FLOOR", "AVAILABLE", "UNDER WAY", "LEFT", "SAYS")
	for _, column := range []string{"FLOOR", "AVAILABLE", "UNDER WAY", "LEFT"} {
		t.right[column] = true
	}
	for _, p := range e.Protectors {
		floor, says, as := fmt.Sprint(p.Floor), "not charged", plain
		if !p.FloorKnown {
			floor = "unknown"
		}
		switch {
		case p.Refuses != "":
			says, as = string(p.Outcome), bad
		case p.Charged:
			says, as = "yes", good
		}
		t.add(cell{p.Core + "/" + p.Namespace + "/" + p.Name, plain}, cell{floor, plain}, cell{fmt.Sprint(p.Available), plain},
			cell{fmt.Sprint(p.UnderWay), plain}, cell{fmt.Sprint(p.Left), plain}, cell{says, as})
	}
	return t.text(coloured)
}

func details(p explain.Protector, wide, coloured bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", strong.on(p.Namespace+"/"+p.Name, coloured))
	line := func(format string, of ...any) { b.WriteString(hanging(fmt.Sprintf(format, of...)) + "\n") }
	line("the pod %s", p.Why)
	if p.FloorKnown {
		line("floor %d: %s", p.Floor, p.FloorFrom)
	} else {
		line("floor not known: %s, and nobody knows of how many", p.FloorFrom)
	}
	if d := p.DecreasePending; d != nil {
		line("decrease pending (%s): %s", d.Reason, d.Asks())
	}
	if p.Charged || wide {
		for _, c := range p.Cells {
			line("%s", cellOf(c))
		}
	}
	if p.Domain != "" {
		line("domain of the pod: %s", p.Domain)
	}
	if p.AtMostUnderWay > 0 {
		line("at most %s under way at a time", count(p.AtMostUnderWay, "removal"))
	}
	if p.Refuses != "" {
		line("it %s", p.Refuses)
	}
	return b.String()
}

func cellOf(c explain.Cell) string {
	text := fmt.Sprintf("cell %s: %d counted, %d under way, worth %d", c.Name, c.Counted, c.UnderWay, c.Worth)
	if c.Uncounted {
		text += ", not counted by the present spec"
	}
	if c.Discount != "" {
		text += fmt.Sprintf(", discounted (%s)", c.Discount)
	}
	if c.SilentFor != nil {
		text += fmt.Sprintf(", STALE: its aggregator has been silent for %s (whenStale %s)", c.SilentFor.Round(time.Second), c.WhenStale)
	}
	return text
}

// hanging formats a text with a hanging indent.
func hanging(text string) string {
	return "  " + strings.TrimLeft(wrapped(text, "    ", 100), " ")
}

// wrapped breaks a text into lines of at most width characters. Each line begins with indent.
func wrapped(text, indent string, width int) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(indent)+len(line)+1+len(word) > width {
			lines = append(lines, indent+line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return strings.Join(append(lines, indent+line), "\n")
}

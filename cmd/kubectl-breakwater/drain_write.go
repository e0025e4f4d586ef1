package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/drain"
)

// mostNamed is how many pods of a wave are named, unless the output is wide.
const mostNamed = 4

// simulation formats a simulation as text.
func simulation(s simulated, wide, coloured bool) string {
	var b strings.Builder
	verdict := good.on("passes", coloured)
	if !s.Passes {
		verdict = bad.on(fmt.Sprintf("sticks: %d of %s would stay", len(s.Stuck), count(s.Pods, "pod")), coloured)
	}
	fmt.Fprintf(&b, "%s in cell %s: %s\n", s.What, s.Cell, verdict)
	b.WriteString(wavesOf(s.Waves, wide, coloured))
	if len(s.First) > 0 {
		b.WriteString("\n" + strong.on("Refused first", coloured) + "\n")
		b.WriteString(refusals(s.First, true))
	}
	if len(s.Stuck) > 0 {
		b.WriteString("\n" + strong.on("Would stay", coloured) + "\n")
		b.WriteString(refusals(s.Stuck, false))
	}
	b.WriteString(remainder(s.LeftOut, s.Notes, wide))
	return b.String()
}

// planned formats a plan as text.
func planned(p drainPlan, wide, coloured bool) string {
	var b strings.Builder
	if len(p.Blocked) > 0 {
		b.WriteString(bad.on("These pods block", coloured) + "\n" + refusals(p.Blocked, true) + "\n")
	}
	fmt.Fprintf(&b, "%s in cell %s in %s, about %s: %s\n", count(len(p.Nodes), "node"), p.Cell, count(len(p.Waves), "wave"),
		short(p.Takes), strings.Join(p.Nodes, ", "))
	b.WriteString(wavesOf(p.Waves, wide, coloured))
	b.WriteString(remainder(p.LeftOut, p.Notes, wide))
	return b.String()
}

func short(s drain.Span) string { return time.Duration(s).Round(time.Second).String() }

func wavesOf(waves []drain.Wave, wide, coloured bool) string {
	if len(waves) == 0 {
		return ""
	}
	t := newTable("WAVE", "AFTER", "TAKES", "NODES", "PODS", "")
	t.right["WAVE"], t.right["PODS"] = true, true
	for i, w := range waves {
		named := w.Pods
		more := ""
		if !wide && len(named) > mostNamed {
			named, more = named[:mostNamed], fmt.Sprintf(" and %d more", len(w.Pods)-mostNamed)
		}
		t.add(cell{fmt.Sprint(i + 1), plain}, cell{short(w.Starts), plain}, cell{short(w.Takes), plain}, cell{strings.Join(w.Nodes, ","), plain},
			cell{fmt.Sprint(len(w.Pods)), plain}, cell{strings.Join(named, " ") + more, soft})
	}
	return "\n" + t.text(coloured)
}

// refusals groups denials by protector and verdict. If worded is true, it prints the full message of the first one of each group.
func refusals(all []drain.Refusal, worded bool) string {
	var b strings.Builder
	seen := map[string]int{}
	for _, r := range all {
		by := string(r.Verdict) + " " + r.Protector
		if seen[by]++; seen[by] > mostNamed {
			continue
		}
		fmt.Fprintf(&b, "  %s%s: %s\n", r.Pod, on(r.Node), strings.TrimSpace(by))
		if worded && seen[by] == 1 {
			b.WriteString(wrapped(r.Message, "      ", 100) + "\n")
		}
	}
	for _, r := range all {
		by := string(r.Verdict) + " " + r.Protector
		if seen[by] > mostNamed {
			fmt.Fprintf(&b, "  and %d more: %s\n", seen[by]-mostNamed, strings.TrimSpace(by))
			seen[by] = 0
		}
	}
	return b.String()
}

func on(node string) string {
	if node == "" {
		return ""
	}
	return " on " + node
}

func remainder(left []leftOut, notes []string, wide bool) string {
	var b strings.Builder
	if len(left) > 0 {
		fmt.Fprintf(&b, "\n%s left out: of DaemonSets, or mirror pods\n", count(len(left), "pod"))
		for _, l := range left {
			if wide {
				fmt.Fprintf(&b, "  %s on %s: %s\n", l.Pod, l.Node, l.Why)
			}
		}
	}
	for _, note := range notes {
		b.WriteString("\n" + wrapped("note: "+note, "", 100) + "\n")
	}
	return b.String()
}

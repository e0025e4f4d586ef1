package drain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
	"github.com/breakwater-k8s/breakwater/internal/plugin/drain/waves"
)

// maxPodNames is how many pods of a wave are named, unless the output is wide.
const maxPodNames = 4

func planText(p drainPlan, wide bool) string {
	var b strings.Builder
	b.WriteString(abortsText(p.Aborts))
	if len(p.Blocked) > 0 {
		b.WriteString(plugin.Bad.Of("These pods block the drain") + "\n" + denialsText(p.Blocked) + "\n")
	}
	b.WriteString(planSummary(p))
	b.WriteString(wavesTable(p.Waves, wide))
	b.WriteString(leftOutText(p.LeftOut, p.Notes, wide))
	return b.String()
}

// planSummary says how long the drain takes, or which nodes cannot be drained. A pod that blocks never goes, so that a duration would mislead.
func planSummary(p drainPlan) string {
	if len(p.Nodes) == 0 {
		return "" // the aborts say it
	}
	var blocked, free []string
	for _, node := range p.Nodes {
		if slices.ContainsFunc(p.Blocked, func(r waves.Denial) bool { return r.Node == node }) {
			blocked = append(blocked, node)
		} else {
			free = append(free, node)
		}
	}
	waves := fmt.Sprintf("%s, about %s", printable.Count(len(p.Waves), "wave"), roundedDuration(p.Takes))
	switch {
	case len(p.Blocked) > 0 && len(p.Waves) == 0:
		return fmt.Sprintf("Cannot be drained in cell %s: %s; no pod can go now\n", p.Cell, strings.Join(blocked, ", "))
	case len(p.Blocked) > 0:
		text := fmt.Sprintf("Cannot be drained in cell %s: %s; the other pods can go in %s\n", p.Cell, strings.Join(blocked, ", "), waves)
		if len(free) > 0 {
			text += fmt.Sprintf("Can be drained: %s\n", strings.Join(free, ", "))
		}
		return text
	case len(p.Waves) == 0:
		return fmt.Sprintf("No pod has to go from %s in cell %s\n", strings.Join(p.Nodes, ", "), p.Cell)
	default:
		return fmt.Sprintf("%s in cell %s in %s: %s\n", printable.Count(len(p.Nodes), "node"), p.Cell, waves, strings.Join(p.Nodes, ", "))
	}
}

func abortsText(aborts []waves.Abort) string {
	if len(aborts) == 0 {
		return ""
	}
	text := "\n" + plugin.Bad.Of("kubectl drain aborts before it removes a pod of these nodes") + "\n"
	for i := range aborts {
		text += plugin.WrapText(aborts[i].Node+": "+aborts[i].String(), "  ") + "\n"
	}
	return text + "\n"
}

func roundedDuration(s waves.Span) string { return time.Duration(s).Round(time.Second).String() }

func wavesTable(all []waves.Wave, wide bool) string {
	if len(all) == 0 {
		return ""
	}
	t := plugin.NewTable("WAVE", "AFTER", "TAKES", "NODES", "PODS", "")
	t.AlignRight("WAVE", "PODS")
	for i, w := range all {
		named := w.Pods
		more := ""
		if !wide && len(named) > maxPodNames {
			named, more = named[:maxPodNames], fmt.Sprintf(" and %d more", len(w.Pods)-maxPodNames)
		}
		t.Add(fmt.Sprint(i+1), roundedDuration(w.Starts), roundedDuration(w.Takes), strings.Join(w.Nodes, ","),
			fmt.Sprint(len(w.Pods)), plugin.Soft.Of(strings.Join(named, " ")+more))
	}
	return "\n" + t.Text()
}

// denialsText groups denials by protector and verdict, with the full message of the first one of each group.
func denialsText(all []waves.Denial) string {
	var b strings.Builder
	counts := map[string]int{}
	for _, r := range all {
		key := string(r.Verdict) + " " + r.Protector
		if counts[key]++; counts[key] > maxPodNames {
			continue
		}
		fmt.Fprintf(&b, "  %s on %s: %s\n", r.Pod, r.Node, strings.TrimSpace(key))
		if counts[key] == 1 {
			b.WriteString(plugin.WrapText(r.Message, "      ") + "\n")
		}
	}
	for _, r := range all {
		key := string(r.Verdict) + " " + r.Protector
		if counts[key] > maxPodNames {
			fmt.Fprintf(&b, "  and %d more: %s\n", counts[key]-maxPodNames, strings.TrimSpace(key))
			counts[key] = 0
		}
	}
	return b.String()
}

func leftOutText(left []leftOut, notes []string, wide bool) string {
	var b strings.Builder
	if len(left) > 0 {
		fmt.Fprintf(&b, "\n%s left out: pods of DaemonSets, or mirror pods\n", printable.Count(len(left), "pod"))
		for _, l := range left {
			if wide {
				fmt.Fprintf(&b, "  %s on %s: %s\n", l.Pod, l.Node, l.Why)
			}
		}
	}
	for _, note := range notes {
		b.WriteString("\n" + plugin.WrapText("note: "+note, "") + "\n")
	}
	return b.String()
}

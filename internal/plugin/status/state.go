package status

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

// floorLocation says where a user can change the floor.
func floorLocation(v *status.Protector) string {
	switch {
	case v.Policy != "":
		return "in " + v.Policy
	case v.Generated:
		return "on " + v.Source + ", from which it was generated, or in its policy"
	default:
		return "in the PodProtector"
	}
}

// denialAdvice returns why a protector denies removals, and what to do.
func denialAdvice(v *status.Protector) (why, remedy string) {
	switch v.Denies {
	case "NoBudget":
		return noBudgetAdvice(v)
	case "DomainLoss":
		return "After one more removal, the loss of a domain would break the floor.",
			"Wait until more pods are available in other domains, or disable spec.spread.tolerateDomainLoss where it is set."
	case "Full":
		return fmt.Sprintf("%s under way, the maximum of maxConcurrentLag.", printable.Count(v.UnderWay, "removal")),
			"Wait until the aggregators have seen them. If that takes longer than a few seconds, see the cells below."
	case "TooManyUpdates":
		return "The maximum number of pods of a cell is being updated.", "Wait until some of them are available again."
	case "NeverAggregated":
		return "No aggregator has counted its pods yet.", "Check that an aggregator runs for the cell: kubectl breakwater cells."
	case "Draining":
		return "The cell is being removed, and waits for earlier removals.", "Delete the cluster's webhook configuration when the Cell is deleted."
	case "FloorUnknown":
		return "The number of expected pods is unknown, so that the floor cannot be computed.",
			"Set spec.expectedReplicas, or set minAvailable to a number, " + floorLocation(v) + ". The cells below show the cause."
	case "Restored":
		return "The protector or its core cluster was restored, and some of its cells have not been counted since.",
			"Wait for the admissionDeadline of the cells, until their aggregators have written. If one is stale, repair it first."
	}
	return "", ""
}

func noBudgetAdvice(v *status.Protector) (why, remedy string) {
	lower := "Or lower the floor " + floorLocation(v) + "."
	if missing := v.BelowFloor(); missing > 0 {
		return fmt.Sprintf("%s available and the floor is %s: %s missing, not including removals under way.", isOrAre(v.Available), plugin.NumberText(v.Floor.Pods), isOrAre(missing)),
			fmt.Sprintf("Find out why pods are not available: kubectl get pods -n %s in the cells below. %s", v.Namespace, lower)
	}
	if v.UnderWay > 0 {
		return fmt.Sprintf("%s available, %s being removed, and the floor is %s.", isOrAre(v.Available), isOrAre(v.UnderWay), plugin.NumberText(v.Floor.Pods)),
			"Wait until their replacements are available. " + lower
	}
	if v.NeedsAllPods() {
		return fmt.Sprintf("%s available and the floor is %s, so that no pod is missing.", isOrAre(v.Available), plugin.NumberText(v.Floor.Pods)),
			"To allow removals, add pods, or lower the floor " + floorLocation(v) + "."
	}
	return fmt.Sprintf("%s available, which is exactly the floor.", isOrAre(v.Available)), "Wait until more pods are available. " + lower
}

func isOrAre(n int) string {
	if n == 1 {
		return "1 is"
	}
	return strconv.Itoa(n) + " are"
}

// gapText returns a short description of a gap, and its style.
func gapText(gap status.Gap) (string, plugin.Style) {
	switch {
	case gap == status.GapUnguarded:
		return strings.ToUpper(gap.Text()), plugin.Bad
	case gap.IsNeutral():
		return gap.Text(), plugin.Plain
	default:
		return gap.Text(), plugin.Warn
	}
}

// stateText returns a short description of a protector's state and its style.
func stateText(v *status.Protector) (string, plugin.Style) {
	var stale []string
	for i := range v.Cells {
		if v.Cells[i].Stale {
			stale = append(stale, v.Cells[i].Cell)
		}
	}
	text, as := "ok", plugin.Good
	switch missing := v.BelowFloor(); {
	case missing > 0:
		text, as = fmt.Sprintf("%d below floor", missing), plugin.Bad
	case v.NeedsAllPods():
		text, as = "at floor (all pods)", plugin.Good
	case v.Denies == "NoBudget":
		text, as = "at floor", plugin.Warn
	case v.Denies != "":
		text, as = "denies: "+v.Denies, plugin.Bad
	}
	if v.AboveExpected > 0 {
		text += fmt.Sprintf("; %d above expected", v.AboveExpected)
		if as == plugin.Good {
			as = plugin.Warn
		}
	}
	for _, gap := range v.Gaps {
		words, style := gapText(gap)
		if text == "ok" {
			text, as = words, style
			continue
		}
		text += "; " + words
		if style == plugin.Bad || as == plugin.Good {
			as = style
		}
	}
	if v.DecreasePending != nil {
		text += "; decrease pending"
		if as == plugin.Good {
			as = plugin.Warn
		}
	}
	if len(stale) > 0 {
		text += "; stale: " + strings.Join(stale, ",")
		if as == plugin.Good {
			as = plugin.Warn
		}
	}
	return text, as
}

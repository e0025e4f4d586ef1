package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// age formats the time since then as kubectl does.
func age(now, then time.Time) string {
	if then.IsZero() {
		return "?"
	}
	return duration.HumanDuration(max(0, now.Sub(then)))
}

func ago(now, then time.Time) string {
	if ahead := then.Sub(now); ahead > 5*time.Second {
		return duration.HumanDuration(ahead) + " ahead of this clock"
	}
	return age(now, then) + " ago"
}

// count formats a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// number formats a number, or "?" if it is unknown.
func number(n *int) string {
	if n == nil {
		return "?"
	}
	return strconv.Itoa(*n)
}

// floorText describes the source of a floor.
func floorText(f *status.Floor) string {
	var text string
	switch {
	case f.MinAvailable != "":
		text = "minAvailable " + f.MinAvailable
	case f.MaxUnavailable != "":
		text = "maxUnavailable " + f.MaxUnavailable
	}
	switch {
	case f.ExpectedFrom == "":
		return text
	case f.Expected == nil:
		return text + " of what the workloads want, which is not known"
	case f.ExpectedFrom == "spec":
		return text + fmt.Sprintf(" of %d expected (spec.expectedReplicas)", *f.Expected)
	default:
		return text + fmt.Sprintf(" of %d expected (what the workloads want)", *f.Expected)
	}
}

// declared says where a user can change the floor.
func declared(v *status.Protector) string {
	switch {
	case v.Policy != "":
		return "in " + v.Policy
	case v.Source != "":
		return "on " + v.Source + ", which it was made from, or its policy"
	default:
		return "in the PodProtector"
	}
}

// verdictWords returns why a protector denies removals, and what to do.
func verdictWords(v *status.Protector) (why, do string) {
	switch v.Refuses {
	case "NoBudget":
		return noBudget(v)
	case "DomainLoss":
		return "The floor would not outlive the loss of a domain after one more removal.",
			"Wait until more pods are available elsewhere, or turn spec.spread.tolerateDomainLoss off where it is declared."
	case "Full":
		return fmt.Sprintf("%s under way, as many as maxConcurrentLag allows.", count(v.UnderWay, "removal")),
			"Wait until the aggregators have seen them. If that takes longer than seconds, see the cells below."
	case "TooManyUpdates":
		return "As many pods of a cell are under update as can be kept.", "Wait until some of them are available again."
	case "NeverAggregated":
		return "Nobody has ever counted its pods.", "Check that an aggregator runs for the cell: kubectl breakwater cells."
	case "Draining":
		return "The cell is being taken out of service, and waits for earlier removals.", "Delete the cluster's webhook configuration once the Cell is gone."
	case "FloorUnknown":
		return "Nobody knows how many pods are expected, which the floor is reckoned from.",
			"Set spec.expectedReplicas, or give minAvailable as a number, " + declared(v) + ". What stands in the way is told with the cells below."
	case "Restored":
		return "It was restored, or its core cluster was, and not all of its cells are counted anew.",
			"Wait for the admissionDeadline of the cells, until their aggregators have written. If one is stale, mend that first."
	}
	return "", ""
}

func noBudget(v *status.Protector) (why, do string) {
	lower := "Or lower the floor " + declared(v) + "."
	if missing := v.BelowFloor(); missing > 0 {
		return fmt.Sprintf("%s available and the floor is %s: %s missing, apart from removals under way.", are(v.Available), number(v.Floor.Pods), are(missing)),
			fmt.Sprintf("Find out why pods are not available: kubectl get pods -n %s in the cells below. %s", v.Namespace, lower)
	}
	if v.UnderWay > 0 {
		return fmt.Sprintf("%s available, %s being removed, and the floor is %s.", are(v.Available), are(v.UnderWay), number(v.Floor.Pods)),
			"Wait until pods come back. " + lower
	}
	return fmt.Sprintf("%s available, and the floor is as many.", are(v.Available)), "Wait until more pods are available. " + lower
}

func are(n int) string {
	if n == 1 {
		return "1 is"
	}
	return strconv.Itoa(n) + " are"
}

// stateText returns a short description of a protector's state and its style.
func stateText(v *status.Protector) (string, paint) {
	var stale []string
	for i := range v.Cells {
		if v.Cells[i].Stale {
			stale = append(stale, v.Cells[i].Cell)
		}
	}
	text, as := "ok", good
	switch missing := v.BelowFloor(); {
	case missing > 0:
		text, as = fmt.Sprintf("%d below floor", missing), bad
	case v.Refuses == "NoBudget":
		text, as = "at floor", warn
	case v.Refuses != "":
		text, as = "refuses: "+v.Refuses, bad
	}
	if v.DecreasePending != nil {
		text += "; decrease pending"
		if as == good {
			as = warn
		}
	}
	if len(stale) > 0 {
		text += "; stale: " + strings.Join(stale, ",")
		if as == good {
			as = warn
		}
	}
	return text, as
}

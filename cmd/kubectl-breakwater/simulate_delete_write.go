package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/deletion"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// deletionText formats a simulated deletion as a table with a summary.
func deletionText(d *predictedDeletion, wide, coloured bool) string {
	var b strings.Builder
	if len(d.Protectors) == 0 {
		fmt.Fprintf(&b, "%s: no floor depends on %s.\n", d.What, printable.Count(d.Objects, "object"))
		b.WriteString(leftOutText(nil, d.Notes, wide))
		return b.String()
	}
	fmt.Fprintf(&b, "%s: %s, and %s on %s\n\n", d.What, printable.Count(d.Objects, "object"), dependentFloors(len(d.Protectors)), pronoun(d.Objects))
	b.WriteString(deletionTable(d.Protectors, wide).text(coloured))
	b.WriteString("\n" + deletionSummary(d))
	b.WriteString(leftOutText(nil, d.Notes, wide))
	return b.String()
}

func dependentFloors(n int) string {
	if n == 1 {
		return "1 floor depends"
	}
	return strconv.Itoa(n) + " floors depend"
}

func pronoun(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

func deletionTable(rows []deletion.Prediction, wide bool) *table {
	headings := []string{"NAMESPACE", "NAME", "FLOOR", "AVAILABLE", "RESULT", "WHY"}
	if wide {
		headings = append(headings, "DELETED")
	}
	t := newTable(headings...)
	t.alignRight("FLOOR", "AVAILABLE")
	for i := range rows {
		r := &rows[i]
		as := map[deletion.Result]textStyle{deletion.Released: warn, deletion.Held: good, deletion.Refused: bad}[r.Result]
		row := []tableCell{
			{r.Namespace, plain}, {r.Name, plain}, {numberText(r.Floor), plain}, {strconv.Itoa(r.Available), plain}, {string(r.Result), as}, {r.Because, plain},
		}
		if wide {
			row = append(row, tableCell{r.Object, plain})
		}
		t.add(row...)
	}
	return t
}

// deletionSummary counts floors, and describes which pods stay protected and what to do.
func deletionSummary(d *predictedDeletion) string {
	var parts []string
	for _, one := range []struct {
		n    int
		word string
	}{{d.Released, "released"}, {d.Held, "held"}, {d.Refused, "refused"}, {d.Kept, "kept"}} {
		if one.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", one.n, one.word))
		}
	}
	text := "Floors: " + strings.Join(parts, ", ") + "."
	floor, available := remainingProtection(d.Protectors)
	if available > 0 {
		text += fmt.Sprintf(" Those that stay in force keep %d of %s available.", floor, printable.Count(available, "pod"))
	}
	if d.Denied > 0 {
		text += fmt.Sprintf(" The root guard denies %s.", printable.Count(d.Denied, "deletion"))
	}
	if d.Warned > 0 {
		text += fmt.Sprintf(" The root guard warns about %s, and allows them.", printable.Count(d.Warned, "deletion"))
	}
	return wrapText(text, "") + "\n" + confirmationHint(d)
}

// remainingProtection sums the pods that the remaining floors protect, and the available pods of their protectors. An unknown floor protects all
// available pods.
func remainingProtection(rows []deletion.Prediction) (floor, available int) {
	for i := range rows {
		r := &rows[i]
		if r.Result == deletion.Released {
			continue
		}
		available += r.Available
		if r.Floor == nil {
			floor += r.Available
			continue
		}
		floor += min(*r.Floor, r.Available)
	}
	return floor, available
}

// confirmationHint describes how to confirm decreases that are not released, if a confirmation would release them.
func confirmationHint(d *predictedDeletion) string {
	text, namespaces := "", map[string]bool{}
	for i := range d.Protectors {
		switch r := &d.Protectors[i]; {
		case r.Reason == v1alpha1.ReasonCascade, r.Reason == v1alpha1.ReasonLimitExceeded:
			namespaces[r.Namespace] = true
		case r.Reason == deletion.ReasonRootGuard && text == "":
			text = wrapText(r.Message, "") + "\n"
		}
	}
	for namespace := range namespaces {
		in, of, name := "-n "+namespace, "the namespace", namespace
		if len(namespaces) > 1 {
			in, of, name = "-A", fmt.Sprintf("each of the %d namespaces", len(namespaces)), "NAME"
		}
		return text + fmt.Sprintf("If it is intended, confirm it. In advance, for all floors of %s:\n  kubectl annotate namespace %s %s=true\n"+
			"Or later, while the floors are held:\n  kubectl breakwater release --pending %s\n", of, name, v1alpha1.AnnotationConfirmRelease, in)
	}
	return text
}

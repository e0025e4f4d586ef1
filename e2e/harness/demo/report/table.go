package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Table returns the comparison in plain text.
func (r Report) Table() string {
	rows := append([]row{{Label: "", Unprotected: "without", Protected: "with Breakwater"}}, r.rows()...)
	var label, left int
	for _, row := range rows {
		label = max(label, utf8.RuneCountInString(row.Label))
		left = max(left, utf8.RuneCountInString(row.Unprotected))
	}
	right := utf8.RuneCountInString(rows[0].Protected)
	var out strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&out, "%-*s  %*s  %*s\n", label, row.Label, left, row.Unprotected, right, row.Protected)
	}
	return out.String()
}

// row is one line of the comparison.
type row struct{ Label, Unprotected, Protected string }

func (r Report) rows() []row {
	u, p := r.Unprotected, r.Protected
	number := func(label string, u, p int) row {
		return row{Label: label, Unprotected: strconv.Itoa(u), Protected: strconv.Itoa(p)}
	}
	rows := []row{
		number("fewest available pods", u.MinAvailable, p.MinAvailable),
		number("removals below the floor", u.OverAdmissions, p.OverAdmissions),
		number("available when the storm was over", u.FinalAvailable, p.FinalAvailable),
		number("available pods removed", u.Removals, p.Removals),
		number("requests of the storm", u.Attempted, p.Attempted),
		number("… admitted", u.Admitted, p.Admitted),
		number("… refused by Breakwater", u.Denied, p.Denied),
		number("… too late, the pod was gone", u.Missed, p.Missed),
		number("… failed otherwise", u.Failed, p.Failed),
		{Label: "duration", Unprotected: fmt.Sprintf("%.1f s", u.DurationSeconds), Protected: fmt.Sprintf("%.1f s", p.DurationSeconds)},
	}
	if p.Recovery != nil {
		rows = append(rows, row{Label: "budget usable again after", Unprotected: "–",
			Protected: fmt.Sprintf("%.1f s", p.Recovery.UsableAfterSeconds)})
	}
	return rows
}

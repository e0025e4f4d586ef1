package report

import (
	"fmt"
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

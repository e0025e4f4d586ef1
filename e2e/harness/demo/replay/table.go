package replay

import (
	"fmt"
	"strings"

	"github.com/breakwater-k8s/breakwater/e2e/harness/demo/report"
)

// Table renders a Markdown table with a row for each second: the attacks that began, and the pods, reservations and answers at its end.
func Table(r report.Report) string {
	var out strings.Builder
	out.WriteString("| second | begins | available | of it " + strings.Join(r.Cells, ", ") + " | open reservations | admitted | refused |\n")
	out.WriteString("| --- | --- | --- | --- | --- | --- | --- |\n")
	marks := Marks(r)
	before := report.Entry{}
	for second := 1; float64(second) <= end(r); second++ {
		var begins []string
		for i, m := range marks {
			if m.Seconds >= float64(second-1) && m.Seconds < float64(second) {
				begins = append(begins, fmt.Sprintf("%d %s", i+1, m.Name))
			}
		}
		point, entry := report.Point{}, before
		for _, p := range r.Protected.Timeline {
			if p.Seconds <= float64(second) {
				point = p
			}
		}
		for _, e := range r.Protected.Ledger {
			if e.Seconds <= float64(second) {
				entry = e
			}
		}
		fmt.Fprintf(&out, "| %d | %s | %d | %s | %.0f | %d | %d |\n", second, strings.Join(begins, ", "), point.Total, numbers(point.Cells),
			sum(entry.Reserved), entry.Admitted-before.Admitted, entry.Refused-before.Refused)
		before = entry
	}
	return out.String()
}

func numbers(all []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(all), " ", ", "), "[]")
}

package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strconv"
)

//go:embed page.html
var pageSource string

// page is the data of the template.
type page struct {
	Report
	Chart   template.HTML
	Samples []sample
	Rows    []row
	Attacks []attackRow
}

// row is one line of the comparison.
type row struct {
	Label, Unprotected, Protected string
	// UnprotectedBad and ProtectedBad mark values that show a broken floor.
	UnprotectedBad, ProtectedBad bool
}

// attackRow is one attack in both runs.
type attackRow struct {
	Name                   string
	Unprotected, Protected Attack
}

// sample is a second of the plot, for the table. A run that has ended has no value.
type sample struct {
	Seconds                int
	Unprotected, Protected string
}

// HTML renders the report as a self-contained page.
func (r Report) HTML() ([]byte, error) {
	parsed, err := template.New("page").Parse(pageSource)
	if err != nil {
		return nil, fmt.Errorf("parse the page's template: %w", err)
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, page{
		Report:  r,
		Chart:   template.HTML(r.chart().Draw()), //nolint:gosec // It escapes its texts.
		Samples: r.samples(),
		Rows:    r.rows(),
		Attacks: r.attacks(),
	})
	if err != nil {
		return nil, fmt.Errorf("render the page: %w", err)
	}
	return out.Bytes(), nil
}

func (r Report) rows() []row {
	u, p := r.Unprotected, r.Protected
	number := func(label string, u, p int) row {
		return row{Label: label, Unprotected: strconv.Itoa(u), Protected: strconv.Itoa(p)}
	}
	least := number("fewest available pods", u.MinAvailable, p.MinAvailable)
	least.UnprotectedBad, least.ProtectedBad = u.MinAvailable < r.Floor, p.MinAvailable < r.Floor
	over := number("removals below the floor", u.OverAdmissions, p.OverAdmissions)
	over.UnprotectedBad, over.ProtectedBad = u.OverAdmissions > 0, p.OverAdmissions > 0
	rows := []row{
		least,
		over,
		number("available when the storm was over", u.FinalAvailable, p.FinalAvailable),
		number("available pods removed", u.Removals, p.Removals),
		number("requests of the storm", u.Attempted, p.Attempted),
		number("… admitted", u.Admitted, p.Admitted),
		number("… refused by Breakwater", u.Refused, p.Refused),
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

func (r Report) attacks() []attackRow {
	var rows []attackRow
	for i, attack := range r.Protected.PerAttack {
		both := attackRow{Name: attack.Name, Protected: attack}
		if i < len(r.Unprotected.PerAttack) {
			both.Unprotected = r.Unprotected.PerAttack[i]
		}
		rows = append(rows, both)
	}
	return rows
}

func (r Report) samples() []sample {
	var samples []sample
	end := int(math.Ceil(max(r.Unprotected.end(), r.Protected.end())))
	show := func(run Run, second int) string {
		total, ok := run.at(float64(second))
		if !ok || float64(second) > math.Ceil(run.end()) {
			return "–"
		}
		return strconv.Itoa(total)
	}
	for second := range end + 1 {
		samples = append(samples, sample{
			Seconds: second, Unprotected: show(r.Unprotected, second), Protected: show(r.Protected, second),
		})
	}
	return samples
}

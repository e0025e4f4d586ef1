package chaos

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
)

//go:embed page.html
var pageSource string

// page renders the report as HTML: the table, and the pictures beside it in the folder.
func (r *Report) page() ([]byte, error) {
	parsed, err := template.New("page").Parse(pageSource)
	if err != nil {
		return nil, fmt.Errorf("parse the page's template: %w", err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, r); err != nil {
		return nil, fmt.Errorf("render the page: %w", err)
	}
	return out.Bytes(), nil
}

// Outcome returns the report in one sentence.
func (r *Report) Outcome() string {
	over, admitted, broken := 0, 0, 0
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		over, admitted = over+s.OverAdmissions, admitted+s.Admitted
		if s.Err() != nil {
			broken++
		}
	}
	if broken == 0 {
		return fmt.Sprintf("%d storms, %d removals admitted: none left fewer pods than the floor, and Breakwater recovered from every fault.",
			len(r.Scenarios), admitted)
	}
	return fmt.Sprintf("%d of %d storms failed. %d of %d admitted removals left fewer pods than the floor.",
		broken, len(r.Scenarios), over, admitted)
}

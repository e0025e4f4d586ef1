package model

import (
	"cmp"
	"slices"
	"strings"
)

// PageSize is the number of protectors on a page.
const PageSize = 50

// Query selects protectors.
type Query struct {
	// Text is a substring of the ID of a row, such as shop/web. State is one of the states. Empty matches all.
	Text  string
	State State
	// Page counts from 1. A page beyond the last is the last.
	Page int
}

// Totals counts the protectors that the visitor may see, in total and per state.
type Totals struct {
	Protectors int           `json:"protectors"`
	Pods       int           `json:"availablePods"`
	Refused    int           `json:"refusedLately"`
	Of         map[State]int `json:"states"`
}

// Fleet is a page of protectors.
type Fleet struct {
	Totals Totals `json:"totals"`
	Rows   []Row  `json:"protectors"`
	// Found is the number of protectors that match the query. They fill Pages pages.
	Found int `json:"found"`
	Page  int `json:"page"`
	Pages int `json:"pages"`
}

// FleetOf returns the page of a query, sorted by state, worst first.
func FleetOf(rows []Row, q Query) Fleet {
	f := Fleet{Totals: Totals{Protectors: len(rows), Of: map[State]int{}}}
	var found []Row
	for i := range rows {
		row := &rows[i]
		f.Totals.Pods += row.Available
		f.Totals.Refused += row.Refused
		for _, s := range row.States {
			f.Totals.Of[s]++
		}
		if (q.State == "" || row.Has(q.State)) && strings.Contains(row.ID(), q.Text) {
			found = append(found, *row)
		}
	}
	slices.SortFunc(found, func(a, b Row) int {
		return cmp.Or(cmp.Compare(severity(&a), severity(&b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Core, b.Core))
	})
	f.Found = len(found)
	f.Pages = max((f.Found+PageSize-1)/PageSize, 1)
	f.Page = min(max(q.Page, 1), f.Pages)
	f.Rows = found[(f.Page-1)*PageSize : min(f.Page*PageSize, f.Found)]
	return f
}

// severity is the severity rank of a row's worst state, 0 being the worst. A row without states ranks last.
func severity(r *Row) int {
	if len(r.States) == 0 {
		return len(States())
	}
	return slices.Index(States(), r.States[0])
}

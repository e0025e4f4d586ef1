package console

import (
	"cmp"
	"slices"
	"strings"
)

// pageSize is the number of protectors on a page.
const pageSize = 50

// query selects protectors.
type query struct {
	// Text is a substring of the ID of a row, such as shop/web. State is one of the states. Empty matches all.
	Text  string
	State state
	// Page counts from 1. A page beyond the last is the last.
	Page int
}

// totals counts the protectors that the visitor may see, in total and per state.
type totals struct {
	Protectors int           `json:"protectors"`
	Pods       int           `json:"availablePods"`
	Denied     int           `json:"refusedLately"`
	Of         map[state]int `json:"states"`
}

// fleet is a page of protectors.
type fleet struct {
	Totals totals `json:"totals"`
	Rows   []row  `json:"protectors"`
	// Found is the number of protectors that match the query. They fill Pages pages.
	Found int `json:"found"`
	Page  int `json:"page"`
	Pages int `json:"pages"`
}

// fleetOf returns the page of a query, sorted by state, worst first.
func fleetOf(rows []row, q query) fleet {
	f := fleet{Totals: totals{Protectors: len(rows), Of: map[state]int{}}}
	var found []row
	for i := range rows {
		r := &rows[i]
		f.Totals.Pods += r.Available
		f.Totals.Denied += r.Denied
		for _, s := range r.States {
			f.Totals.Of[s]++
		}
		if (q.State == "" || r.has(q.State)) && strings.Contains(r.ID(), q.Text) {
			found = append(found, *r)
		}
	}
	order := states()
	severity := func(r *row) int { // 0 is the worst; a row without states is last
		if len(r.States) == 0 {
			return len(order)
		}
		return slices.Index(order, r.States[0])
	}
	slices.SortFunc(found, func(a, b row) int {
		return cmp.Or(severity(&a)-severity(&b), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Core, b.Core))
	})
	f.Found = len(found)
	f.Pages = max((f.Found+pageSize-1)/pageSize, 1)
	f.Page = min(max(q.Page, 1), f.Pages)
	f.Rows = found[(f.Page-1)*pageSize : min(f.Page*pageSize, f.Found)]
	return f
}

package model

import (
	"cmp"
	"slices"
	"strings"
)

// PageSize is how many protectors a page has.
const PageSize = 50

// Query says which protectors to show.
type Query struct {
	// Text is to be part of the namespace and name, as shop/web; State one of the states. Empty is any.
	Text  string
	State State
	// Page counts from 1. One beyond the last is the last.
	Page int
}

// Totals are how many protectors are in each state, of all that the visitor may see.
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
	// Found is how many the query chooses, on so many Pages.
	Found int `json:"found"`
	Page  int `json:"page"`
	Pages int `json:"pages"`
}

// FleetOf is the page of a query, the worst protectors first. The rows are reordered.
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
		if (q.State == "" || row.Has(q.State)) && strings.Contains(row.Namespace+"/"+row.Name, q.Text) {
			found = append(found, *row)
		}
	}
	slices.SortFunc(found, func(a, b Row) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	f.Found = len(found)
	f.Pages = max((f.Found+PageSize-1)/PageSize, 1)
	f.Page = min(max(q.Page, 1), f.Pages)
	f.Rows = found[(f.Page-1)*PageSize : min(f.Page*PageSize, f.Found)]
	return f
}

// rank is how bad the worst state is; what has none comes last.
func rank(r *Row) int {
	if len(r.States) == 0 {
		return len(States())
	}
	return slices.Index(States(), r.States[0])
}

package plugin

import (
	"slices"
	"strings"
	"time"
)

// Table is a list of rows below headings.
type Table struct {
	headings []string
	Rows     [][]string
	// right holds the headings of right-aligned columns.
	right []string
}

// NewTable returns a table without rows.
func NewTable(headings ...string) *Table { return &Table{headings: headings} }

// AlignRight right-aligns these columns if they exist.
func (t *Table) AlignRight(headings ...string) { t.right = headings }

// Add adds a row with a cell for each heading.
func (t *Table) Add(row ...string) { t.Rows = append(t.Rows, row) }

// Text formats the table with minimal column widths and two spaces between columns.
func (t *Table) Text() string {
	widths := make([]int, len(t.headings))
	title := make([]string, len(t.headings))
	for i, heading := range t.headings {
		title[i] = Strong.Of(heading)
	}
	rows := slices.Insert(slices.Clone(t.Rows), 0, title)
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], ColumnsOf(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-ColumnsOf(cell))
			if slices.Contains(t.right, t.headings[i]) {
				cell, gap = gap+cell, ""
			}
			line += cell + gap + "  "
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// TableOptions are the options that tables of several kinds share.
type TableOptions struct {
	// Namespaces and cores add a column each.
	Namespaces, Cores bool
	Wide              bool
	Now               time.Time
}

// Row returns the cells of a row, or the headings. Those of wide follow in a wide table.
func (o TableOptions) Row(namespace, core string, cells []string, wide ...string) (row []string) {
	if o.Cores {
		row = append(row, core)
	}
	if o.Namespaces {
		row = append(row, namespace)
	}
	if row = append(row, cells...); o.Wide {
		row = append(row, wide...)
	}
	return row
}

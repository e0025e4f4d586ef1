package main

import (
	"slices"
	"strings"
	"time"
)

// table is a list of rows below headings.
type table struct {
	headings []string
	rows     [][]string
	// right holds the headings of right-aligned columns.
	right []string
}

func newTable(headings ...string) *table { return &table{headings: headings} }

// alignRight right-aligns these columns if they exist.
func (t *table) alignRight(headings ...string) { t.right = headings }

func (t *table) add(row ...string) { t.rows = append(t.rows, row) }

// text formats the table with minimal column widths and two spaces between columns.
func (t *table) text() string {
	widths := make([]int, len(t.headings))
	title := make([]string, len(t.headings))
	for i, heading := range t.headings {
		title[i] = strong.of(heading)
	}
	rows := slices.Insert(slices.Clone(t.rows), 0, title)
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], columnsOf(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-columnsOf(cell))
			if slices.Contains(t.right, t.headings[i]) {
				cell, gap = gap+cell, ""
			}
			line += cell + gap + "  "
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// tableOptions are the options that tables of several kinds share.
type tableOptions struct {
	// namespaces and cores add a column each.
	namespaces, cores bool
	wide              bool
	now               time.Time
}

// row returns the cells of a row, or the headings. Those of wide follow in a wide table.
func (o tableOptions) row(namespace, core string, cells []string, wide ...string) (row []string) {
	if o.cores {
		row = append(row, core)
	}
	if o.namespaces {
		row = append(row, namespace)
	}
	if row = append(row, cells...); o.wide {
		row = append(row, wide...)
	}
	return row
}

package main

import (
	"strings"
	"unicode/utf8"
)

// tableCell is a text in a table with its style.
type tableCell struct {
	text  string
	style textStyle
}

// table is a list of rows, the first of which holds the headings.
type table struct {
	rows [][]tableCell
	// right holds the headings of right-aligned columns.
	right map[string]bool
}

func newTable(headings ...string) *table {
	t := &table{right: map[string]bool{}}
	row := make([]tableCell, len(headings))
	for i, heading := range headings {
		row[i] = tableCell{heading, strong}
	}
	t.rows = append(t.rows, row)
	return t
}

// alignRight right-aligns these columns if they exist.
func (t *table) alignRight(headings ...string) {
	for _, heading := range headings {
		t.right[heading] = true
	}
}

func (t *table) add(row ...tableCell) { t.rows = append(t.rows, row) }

// text formats the table with minimal column widths and two spaces between columns.
func (t *table) text(coloured bool) string {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		line := ""
		for i, c := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
			switch {
			case t.right[t.rows[0][i].text]:
				line += gap + c.style.apply(c.text, coloured) + "  "
			default:
				line += c.style.apply(c.text, coloured) + gap + "  "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

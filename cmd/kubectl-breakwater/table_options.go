package main

import (
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/term"
)

// tableOptions are the options that tables of several kinds share.
type tableOptions struct {
	// namespaces and cores add a column each.
	namespaces, cores bool
	wide              bool
	now               time.Time
}

// headings returns the headings of a table. Those of wide follow in a wide one.
func (o tableOptions) headings(rest []string, wide ...string) []string {
	var first []string
	if o.cores {
		first = append(first, "CORE")
	}
	if o.namespaces {
		first = append(first, "NAMESPACE")
	}
	if !o.wide {
		wide = nil
	}
	return slices.Concat(first, rest, wide)
}

func (o tableOptions) leadingCells(namespace, core string) (row []tableCell) {
	if o.cores {
		row = append(row, tableCell{core, plain})
	}
	if o.namespaces {
		row = append(row, tableCell{namespace, plain})
	}
	return row
}

// widthOf returns the width of a terminal, or 0 if out is not a terminal.
func widthOf(out io.Writer) int {
	file, ok := underneath(out).(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

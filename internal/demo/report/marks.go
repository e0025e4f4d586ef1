package report

import (
	"html"
	"strings"
)

// mark is something that happened at one time.
type mark struct {
	Number  int
	Seconds float64
	Label   string
}

// marks are the beginnings of the attacks, as the run with Breakwater had them (both runs follow one plan), and
// the recovery.
func (r Report) marks() []mark {
	var marks []mark
	for _, attack := range r.Protected.PerAttack {
		marks = append(marks, mark{Seconds: attack.BeginSeconds, Label: attack.Name})
	}
	if recovery := r.Protected.Recovery; recovery != nil {
		marks = append(marks, mark{Seconds: recovery.BeginSeconds, Label: "with Breakwater: application deployed again"})
	}
	for i := range marks {
		marks[i].Number = i + 1
	}
	return marks
}

// label is a mark's place in the list below the plot.
type label struct {
	mark
	x   float64
	row int
}

// labels lays the marks out in rows. Beside the plot's lines they would overlap.
func (c *chart) labels() (labels []label, rows int) {
	x, row := c.left, 0
	for _, m := range c.report.marks() {
		width := 22 + textWidth(m.Label) + 16
		if x > c.left && x+width > c.width-c.right {
			x, row = c.left, row+1
		}
		labels = append(labels, label{mark: m, x: x, row: row})
		x += width
	}
	return labels, row + 1
}

// marks draws numbers at the times, and what they stand for below the plot.
func (c *chart) marks() {
	labels, _ := c.labels()
	for _, l := range labels {
		x := c.x(l.Seconds)
		c.printf(`<path class="mark" d="M%.1f %.1fV%.1f"/>`, x, c.top-4, c.y(0))
		c.badge(x, c.top-12, l.Number)

		y := c.y(0) + axisHeight + (float64(l.row)+0.5)*rowHeight
		c.badge(l.x+8, y, l.Number)
		c.printf(`<text x="%.1f" y="%.1f">%s</text>`, l.x+22, y+4.5, html.EscapeString(l.Label))
	}
}

func (c *chart) badge(x, y float64, number int) {
	c.printf(`<circle class="badge" cx="%.1f" cy="%.1f" r="8"/><text class="number" x="%.1f" y="%.1f" text-anchor="middle">%d</text>`,
		x, y, x, y+4, number)
}

// textWidth estimates the width of a text, on the wide side: which font draws it is not known here.
func textWidth(text string) float64 {
	var width float64
	for _, r := range text {
		switch {
		case strings.ContainsRune("iljtfr .,:'", r):
			width += 4.6
		case strings.ContainsRune("mwMW", r):
			width += 11.5
		default:
			width += 7.8
		}
	}
	return width
}

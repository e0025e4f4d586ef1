package plot

import (
	"html"
	"strings"
)

// Mark is an event at one time.
type Mark struct {
	Number  int
	Seconds float64
	Label   string
}

// label is a mark's position in the list below the plot.
type label struct {
	Mark
	x   float64
	row int
}

// labels arranges the marks in rows below the plot. Next to the plot's lines they would overlap.
func (c *Chart) labels() (labels []label, rows int) {
	x, row := c.left, 0
	for _, m := range c.Marks {
		width := 22 + textWidth(m.Label) + 16
		if x > c.left && x+width > c.Width-c.right {
			x, row = c.left, row+1
		}
		labels = append(labels, label{Mark: m, x: x, row: row})
		x += width
	}
	return labels, row + 1
}

// marks draws numbers at the times of the marks, and their labels below the plot.
func (c *Chart) marks() {
	labels, _ := c.labels()
	for _, l := range labels {
		x := c.x(l.Seconds)
		c.printf(`<path class="mark" d="M%.1f %.1fV%.1f"/>`, x, c.top-4, c.y(0))
		c.badge(x, c.top-12, l.Number)

		y := c.y(0) + axisHeight + (float64(l.row+len(c.Rows))+0.5)*rowHeight
		c.badge(l.x+8, y, l.Number)
		c.printf(`<text x="%.1f" y="%.1f">%s</text>`, l.x+22, y+4.5, html.EscapeString(l.Label))
	}
}

func (c *Chart) badge(x, y float64, number int) {
	c.printf(`<circle class="badge" cx="%.1f" cy="%.1f" r="8"/><text class="number" x="%.1f" y="%.1f" text-anchor="middle">%d</text>`,
		x, y, x, y+4, number)
}

// textWidth estimates the width of a text generously, because the font is not known here.
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

package plot

import (
	"html"
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
	badge := 0.0
	for _, l := range labels {
		x := c.x(l.Seconds)
		badge = besideBadge(x, badge)
		c.printf(`<path class="mark" d="M%.1f %.1fV%.1f"/>`, x, c.top-4, c.y(0))
		c.badge(badge, c.top-12, l.Number)

		y := c.y(0) + axisHeight + (float64(l.row)+0.5)*rowHeight
		c.badge(l.x+8, y, l.Number)
		c.printf(`<text x="%.1f" y="%.1f">%s</text>`, l.x+22, y+4.5, html.EscapeString(l.Label))
	}
}

package plot

import (
	"html"
	"math"
)

// Mark is an event at one time. Marks are numbered from 1.
type Mark struct {
	Seconds float64
	Label   string
}

// columns is how many labels of marks are in a row below the plot. Next to the plot's lines they would overlap.
const columns = 2

// marks draws numbers at the times of the marks, and their labels below the plot.
func (c *Chart) marks() {
	badge := 0.0
	for i, m := range c.Marks {
		x := c.x(m.Seconds)
		badge = math.Max(x, badge+2*badgeRadius+2) // to the right of the badge before
		c.printf(`<path class="mark" d="M%.1f %.1fV%.1f"/>`, x, c.top-4, c.y(0))
		c.badge(badge, c.top-12, i+1)
		x = c.left + float64(i%columns)*(c.Width-c.left-c.right)/columns
		y := c.y(0) + axisHeight + (float64(i/columns)+0.5)*rowHeight
		c.badge(x+8, y, i+1)
		c.printf(`<text x="%.1f" y="%.1f">%s</text>`, x+22, y+4.5, html.EscapeString(m.Label))
	}
}

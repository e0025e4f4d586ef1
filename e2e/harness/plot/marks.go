package plot

import (
	"html"
	"math"
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

		y := c.y(0) + axisHeight + (float64(l.row+len(c.Rows))+0.5)*rowHeight
		c.badge(l.x+8, y, l.Number)
		c.printf(`<text x="%.1f" y="%.1f">%s</text>`, l.x+22, y+4.5, html.EscapeString(l.Label))
	}
}

// barWidth is the width of one bar.
const barWidth = 4

// spans shades time ranges over the whole height of the plot.
func (c *Chart) spans() {
	for _, span := range c.Spans {
		from, to := c.x(span.From), c.x(math.Min(span.To, c.seconds))
		c.printf(`<rect class="span" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, from, c.top, math.Max(to-from, 1), c.y(0)-c.top)
		c.printf(`<text x="%.1f" y="%.1f">%s</text>`, from, c.top-6, html.EscapeString(span.Name))
	}
}

// rows draws the bars of each row. The height is the square root of the number, so that one event is visible beside a thousand.
func (c *Chart) rows() {
	for i, row := range c.Rows {
		bars := c.bars(row.At)
		most := 1
		for _, n := range bars {
			most = max(most, n)
		}
		base := c.y(0) + axisHeight + float64(i+1)*rowHeight
		for place, n := range bars {
			if height := math.Sqrt(float64(n)/float64(most)) * (rowHeight - 15); n > 0 {
				c.printf(`<rect class="bar %s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, row.Class,
					c.left+float64(place)*barWidth, base-height, barWidth-0.6, height)
			}
		}
		c.printf(`<text x="%.1f" y="%.1f">%d %s</text>`, c.left, base-rowHeight+11, len(row.At),
			html.EscapeString(row.Name))
	}
}

// bars counts the events in the time range of each bar.
func (c *Chart) bars(at []float64) []int {
	bars := make([]int, int((c.Width-c.left-c.right)/barWidth)+1)
	for _, seconds := range at {
		place := int((c.x(seconds) - c.left) / barWidth)
		bars[min(max(place, 0), len(bars)-1)]++
	}
	return bars
}

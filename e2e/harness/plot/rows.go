package plot

import (
	"html"
	"math"
)

// barWidth is the width of one bar.
const barWidth = 4

// spans shades time ranges over the whole height of the plot.
func (c *Chart) spans() {
	for _, span := range c.Spans {
		from, to := c.x(span.From), c.x(math.Min(span.To, c.seconds))
		c.Printf(`<rect class="span" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, from, c.top, math.Max(to-from, 1), c.y(0)-c.top)
		c.Printf(`<text x="%.1f" y="%.1f">%s</text>`, from, c.top-6, html.EscapeString(span.Name))
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
				c.Printf(`<rect class="bar %s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, row.Class,
					c.left+float64(place)*barWidth, base-height, barWidth-0.6, height)
			}
		}
		c.Printf(`<text x="%.1f" y="%.1f">%d %s</text>`, c.left, base-rowHeight+11, len(row.At),
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

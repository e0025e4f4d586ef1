package plot

import (
	"fmt"
	"math"
)

// style is the style of text, panel, grid, axis, floor, marks and badges. Colors are readable on a light and on a dark page. The root element
// has the class "breakwater".
const style = `
.breakwater{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}
.breakwater text{fill:#3d444d}.breakwater .panel{fill:#fff;stroke:#d1d9e0}.breakwater .strong{fill:#1f2328;font-weight:600}
.breakwater .grid{stroke:#d1d9e0}.breakwater .axis{stroke:#818b98}
.breakwater .floor{stroke:#1f2328;stroke-width:1.5;stroke-dasharray:6 4}.breakwater .mark{stroke:#818b98;stroke-dasharray:2 3}
.breakwater .badge{fill:#59636e}.breakwater .number{fill:#fff;font-size:11px;font-weight:600}
@media (prefers-color-scheme:dark){
.breakwater text{fill:#c8d1da}.breakwater .panel{fill:#0d1117;stroke:#3d444d}.breakwater .strong{fill:#f0f6fc}
.breakwater .grid{stroke:#2a313c}.breakwater .axis{stroke:#656c76}
.breakwater .floor{stroke:#f0f6fc}.breakwater .mark{stroke:#656c76}
.breakwater .badge{fill:#9198a1}.breakwater .number{fill:#0d1117}}
`

// printf adds elements. The caller escapes texts that are not constant.
func (c *Chart) printf(format string, arguments ...any) { fmt.Fprintf(&c.out, format, arguments...) }

// badgeRadius is the radius of the circle of a badge.
const badgeRadius = 8

// badge adds a number in a circle around a point.
func (c *Chart) badge(x, y float64, number int) {
	c.printf(`<circle class="badge" cx="%.1f" cy="%.1f" r="%d"/><text class="number" x="%.1f" y="%.1f" text-anchor="middle">%d</text>`,
		x, y, badgeRadius, x, y+4, number)
}

// step returns the smallest of 1, 2, 5, 10, 20, 50, ... and their tenths, hundredths, ... that is at least the given number.
func step(least float64) float64 {
	base := math.Pow(10, math.Floor(math.Log10(least)))
	for _, factor := range []float64{1, 2, 5} {
		if base*factor >= least {
			return base * factor
		}
	}
	return base * 10
}

// ticks returns at most count+1 round numbers from 0 to most, in whole steps.
func ticks(most float64, count int) []float64 {
	length := math.Max(1, step(most/float64(count)))
	var all []float64
	for tick := 0.0; tick <= most; tick += length {
		all = append(all, tick)
	}
	return all
}

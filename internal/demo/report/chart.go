package report

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// chart draws the available pods of both runs over time. All coordinates are in the units of its viewBox.
type chart struct {
	report        Report
	width, height float64
	// id makes the ids of one document's charts different.
	id string
	// background draws a panel behind the plot, for a picture that stands on a page of unknown colour.
	background bool

	left, right, top, bottom float64
	seconds                  float64 // at the right edge
	pods                     float64 // at the top
	out                      strings.Builder
}

// The parts below the plot: the times, then the rows of labels.
const (
	axisHeight = 32
	rowHeight  = 26
)

// series is one line of the plot.
type series struct {
	class, name string
	run         Run
}

func (c *chart) series() []series {
	return []series{
		{class: "without", name: "without Breakwater", run: c.report.Unprotected},
		{class: "with", name: "with Breakwater", run: c.report.Protected},
	}
}

// SVG draws the plot as a picture of its own, readable on a light and on a dark page.
func (r Report) SVG() string {
	c := chart{report: r, width: 960, height: 460, id: "timeline", background: true}
	return `<?xml version="1.0" encoding="UTF-8"?>` + "\n" + c.draw() + "\n"
}

func (c *chart) draw() string {
	c.left, c.right, c.top = 44, 14, 60
	_, rows := c.labels()
	c.bottom = axisHeight + float64(rows)*rowHeight + 10
	c.seconds = math.Max(1, math.Ceil(math.Max(c.report.Unprotected.end(), c.report.Protected.end())))
	c.pods = float64(c.most())

	c.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" aria-labelledby="%s-title %s-desc" class="breakwater">`,
		c.width, c.height, c.id, c.id)
	c.printf(`<title id="%s-title">Available pods over time in a deletion storm, with and without Breakwater</title>`, c.id)
	c.printf(`<desc id="%s-desc">%s</desc>`, c.id, html.EscapeString(c.describe()))
	c.printf(`<style>%s</style>`, chartStyle)
	if c.background {
		c.printf(`<rect class="panel" width="%g" height="%g" rx="8"/>`, c.width, c.height)
	}
	c.legend()
	c.axes()
	c.floor()
	c.marks()
	for _, s := range c.series() {
		c.printf(`<path class="line %s" d="%s"/>`, s.class, c.path(s.run))
	}
	c.printf(`</svg>`)
	return c.out.String()
}

// chartStyle holds the colours: blue and orange differ for every kind of colour vision, and the lines differ in
// width besides.
const chartStyle = `
.breakwater{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}
.breakwater text{fill:#3d444d}.breakwater .panel{fill:#fff;stroke:#d1d9e0}
.breakwater .grid{stroke:#d1d9e0;stroke-width:1}.breakwater .axis{stroke:#818b98}
.breakwater .below{fill:#b3560010}.breakwater .floor{stroke:#1f2328;stroke-width:1.5;stroke-dasharray:6 4}
.breakwater .strong{fill:#1f2328;font-weight:600}
.breakwater .line{fill:none;stroke-linejoin:round}
.breakwater .without{stroke:#bf5000;stroke-width:1.75}.breakwater .with{stroke:#0969da;stroke-width:2.75}
.breakwater .mark{stroke:#818b98;stroke-dasharray:2 3}
.breakwater .badge{fill:#59636e}.breakwater .number{fill:#fff;font-size:11px;font-weight:600}
@media (prefers-color-scheme:dark){
.breakwater text{fill:#c8d1da}.breakwater .panel{fill:#0d1117;stroke:#3d444d}
.breakwater .grid{stroke:#2a313c}.breakwater .axis{stroke:#656c76}
.breakwater .below{fill:#f0883e1a}.breakwater .floor{stroke:#f0f6fc}
.breakwater .strong{fill:#f0f6fc}
.breakwater .without{stroke:#f0883e}.breakwater .with{stroke:#58a6ff}
.breakwater .mark{stroke:#656c76}
.breakwater .badge{fill:#9198a1}.breakwater .number{fill:#0d1117}}
`

func (c *chart) printf(format string, arguments ...any) { fmt.Fprintf(&c.out, format, arguments...) }

func (c *chart) narrow() bool { return c.width < 600 }

func (c *chart) most() int {
	most := c.report.Pods
	for _, s := range c.series() {
		for _, p := range s.run.Timeline {
			most = max(most, p.Total)
		}
	}
	return most
}

func (c *chart) x(seconds float64) float64 {
	return c.left + seconds/c.seconds*(c.width-c.left-c.right)
}

func (c *chart) y(pods float64) float64 {
	return c.height - c.bottom - pods/c.pods*(c.height-c.top-c.bottom)
}

// describe is the plot in words, for those who do not see it.
func (c *chart) describe() string {
	r := c.report
	return fmt.Sprintf("%d pods, floor %d. Without Breakwater the number of available pods falls to %d and is %d at the end of the storm. "+
		"With Breakwater it is never below %d and is %d at the end of the storm.",
		r.Pods, r.Floor, r.Unprotected.MinAvailable, r.Unprotected.FinalAvailable, r.Protected.MinAvailable, r.Protected.FinalAvailable)
}

func (c *chart) legend() {
	x := c.left
	for _, s := range c.series() {
		c.printf(`<path class="line %s" d="M%.1f 20h18"/><text x="%.1f" y="24">%s</text>`, s.class, x, x+24, s.name)
		x += 24 + textWidth(s.name) + 16
	}
	if !c.narrow() {
		c.printf(`<text x="%.1f" y="24" text-anchor="end">available pods</text>`, c.width-c.right)
	}
}

func (c *chart) axes() {
	for _, pods := range ticks(c.pods, 6) {
		c.printf(`<path class="grid" d="M%.1f %.1fH%.1f"/><text x="%.1f" y="%.1f" text-anchor="end">%g</text>`,
			c.left, c.y(pods), c.width-c.right, c.left-8, c.y(pods)+4.5, pods)
	}
	count := 12
	if c.narrow() {
		count = 6
	}
	for _, seconds := range ticks(c.seconds, count) {
		c.printf(`<text x="%.1f" y="%.1f" text-anchor="middle">%g s</text>`, c.x(seconds), c.y(0)+20, seconds)
	}
	c.printf(`<path class="axis" d="M%.1f %.1fH%.1f"/>`, c.left, c.y(0), c.width-c.right)
}

// floor draws the floor over the grid, and shades what is below it.
func (c *chart) floor() {
	y := c.y(float64(c.report.Floor))
	c.printf(`<rect class="below" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, c.left, y, c.width-c.left-c.right, c.y(0)-y)
	c.printf(`<path class="floor" d="M%.1f %.1fH%.1f"/>`, c.left, y, c.width-c.right)
	c.printf(`<text class="strong" x="%.1f" y="%.1f" text-anchor="end">floor %d</text>`, c.width-c.right-4, y+16, c.report.Floor)
}

// ticks gives round numbers from 0 to most, about count of them.
func ticks(most float64, count int) []float64 {
	step := 1.0
	for i := 0; most/step > float64(count); i++ {
		step *= []float64{2, 2.5, 2}[i%3] // 1, 2, 5, 10, 20, 50, ...
	}
	var all []float64
	for tick := 0.0; tick <= most; tick += step {
		all = append(all, tick)
	}
	return all
}

// path draws a run in steps: between two changes the number stays as it is.
func (c *chart) path(run Run) string {
	var d strings.Builder
	for i, p := range run.Timeline {
		if i == 0 {
			fmt.Fprintf(&d, "M%.1f %.1f", c.x(p.Seconds), c.y(float64(p.Total)))
			continue
		}
		fmt.Fprintf(&d, "H%.1fV%.1f", c.x(p.Seconds), c.y(float64(p.Total)))
	}
	return d.String()
}

// Package plot draws the number of available pods over time against a floor, as SVG. The SVG is readable on a light and on a dark
// page, and is self-contained.
package plot

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Chart is the chart to draw. All coordinates are in the units of its viewBox.
type Chart struct {
	// Title and Description describe the plot for screen readers.
	Title, Description string
	Width, Height      float64
	// Floor is the number of pods that must stay available. Pods is the minimum height of the plot, in pods.
	Floor, Pods int
	Lines       []Line
	Marks       []Mark

	out                      strings.Builder
	left, right, top, bottom float64
	seconds                  float64 // at the right edge
	pods                     float64 // at the top
}

// Line is one line of the plot. Its class is "with" or "without", which define its color.
type Line struct {
	Class, Name string
	Points      []Point
}

// Point is the number of available pods from a time on.
type Point struct {
	Seconds float64
	Total   int
}

// The parts below the plot: the times, then the rows of labels.
const (
	axisHeight = 32
	rowHeight  = 26
)

// legendWidth is the width of the name of a line above the plot.
const legendWidth = 200

// SVG renders the plot as a standalone image, with a panel behind it. All texts in it are escaped.
func (c *Chart) SVG() string {
	c.out.Reset()
	c.printf(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	c.left, c.right, c.top = 44, 14, 60
	rows := (len(c.Marks) + columns - 1) / columns
	c.bottom = axisHeight + float64(rows)*rowHeight + 10
	c.measure()

	c.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" aria-labelledby="title desc" class="breakwater">`,
		c.Width, c.Height)
	c.printf(`<title id="title">%s</title>`, html.EscapeString(c.Title))
	c.printf(`<desc id="desc">%s</desc>`, html.EscapeString(c.Description))
	c.printf(`<style>%s</style>`, chartStyle)
	c.printf(`<rect class="panel" width="%g" height="%g" rx="8"/>`, c.Width, c.Height)
	c.legend()
	c.axes()
	c.floor()
	c.marks()
	for _, line := range c.Lines {
		c.printf(`<path class="line %s" d="%s"/>`, line.Class, c.path(line.Points))
	}
	c.printf("</svg>\n")
	return c.out.String()
}

// measure computes the scales.
func (c *Chart) measure() {
	most, end := c.Pods, 1.0
	for _, line := range c.Lines {
		for _, p := range line.Points {
			most, end = max(most, p.Total), math.Max(end, p.Seconds)
		}
	}
	c.seconds, c.pods = math.Ceil(end), float64(max(most, 1))
}

// chartStyle defines the colors of the lines: blue and orange are distinguishable with every kind of color vision, and the lines also
// differ in width.
const chartStyle = style + `
.breakwater .below{fill:#b3560010}
.breakwater .line{fill:none;stroke-linejoin:round}
.breakwater .without{stroke:#bf5000;stroke-width:1.75}.breakwater .with{stroke:#0969da;stroke-width:2.75}
@media (prefers-color-scheme:dark){
.breakwater .below{fill:#f0883e1a}
.breakwater .without{stroke:#f0883e}.breakwater .with{stroke:#58a6ff}}
`

func (c *Chart) x(seconds float64) float64 {
	return c.left + seconds/c.seconds*(c.Width-c.left-c.right)
}

func (c *Chart) y(pods float64) float64 {
	return c.Height - c.bottom - pods/c.pods*(c.Height-c.top-c.bottom)
}

func (c *Chart) legend() {
	for i, s := range c.Lines {
		x := c.left + float64(i)*legendWidth
		c.printf(`<path class="line %s" d="M%.1f 20h18"/><text x="%.1f" y="24">%s</text>`, s.Class, x, x+24, html.EscapeString(s.Name))
	}
	c.printf(`<text x="%.1f" y="24" text-anchor="end">available pods</text>`, c.Width-c.right)
}

func (c *Chart) axes() {
	for _, pods := range ticks(c.pods, 6) {
		c.printf(`<path class="grid" d="M%.1f %.1fH%.1f"/><text x="%.1f" y="%.1f" text-anchor="end">%g</text>`,
			c.left, c.y(pods), c.Width-c.right, c.left-8, c.y(pods)+4.5, pods)
	}
	for _, seconds := range ticks(c.seconds, 12) {
		c.printf(`<text x="%.1f" y="%.1f" text-anchor="middle">%g s</text>`, c.x(seconds), c.y(0)+20, seconds)
	}
	c.printf(`<path class="axis" d="M%.1f %.1fH%.1f"/>`, c.left, c.y(0), c.Width-c.right)
}

// floor draws the floor over the grid, and shades the area below it.
func (c *Chart) floor() {
	y := c.y(float64(c.Floor))
	c.printf(`<rect class="below" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, c.left, y, c.Width-c.left-c.right, c.y(0)-y)
	c.printf(`<path class="floor" d="M%.1f %.1fH%.1f"/>`, c.left, y, c.Width-c.right)
	c.printf(`<text class="strong" x="%.1f" y="%.1f" text-anchor="end">floor %d</text>`, c.Width-c.right-4, y+16, c.Floor)
}

// path draws a line in steps: the number stays the same between two changes.
func (c *Chart) path(points []Point) string {
	var d strings.Builder
	for i, p := range points {
		if i == 0 {
			fmt.Fprintf(&d, "M%.1f %.1f", c.x(p.Seconds), c.y(float64(p.Total)))
			continue
		}
		fmt.Fprintf(&d, "H%.1fV%.1f", c.x(p.Seconds), c.y(float64(p.Total)))
	}
	return d.String()
}

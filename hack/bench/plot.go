package main

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/breakwater-k8s/breakwater/e2e/harness/plot"
)

// Panels are laid out in rows of up to three, each with its legend below. All coordinates are in units of the viewBox.
const (
	panelWidth, panelHeight = 320.0, 250.0
	panelsInRow             = 3
	legendLine              = 17.0
	plotLeft, plotRight     = 56.0, 16.0
	plotTop, plotBottom     = 40.0, 30.0
	plotHead                = 34.0
)

// plotStyle defines the colors of the lines, which also differ in their dashes.
const plotStyle = plot.Style + `
.breakwater .line{fill:none;stroke-width:2;stroke-linejoin:round}
.breakwater .l0{stroke:#0969da}.breakwater .l1{stroke:#bf5000;stroke-dasharray:7 3}.breakwater .l2{stroke:#1a7f37;stroke-dasharray:2 3}
.breakwater .l3{stroke:#8250df;stroke-dasharray:9 3 2 3}
.breakwater .dot{stroke-dasharray:none;fill:#fff}
@media (prefers-color-scheme:dark){
.breakwater .l0{stroke:#58a6ff}.breakwater .l1{stroke:#f0883e}.breakwater .l2{stroke:#3fb950}.breakwater .l3{stroke:#a371f7}
.breakwater .dot{fill:#0d1117}}
`

// draw renders the series as an SVG image that is readable on a light and on a dark page. The steps of the growing number are
// evenly spaced, because each is a multiple of the one before. The other axis begins at 0.
func (g growth) draw(results []result) string {
	var out plot.Canvas
	inRow := min(len(g.panels), panelsInRow)
	if len(g.panels) == 4 {
		inRow = 2
	}
	rows := (len(g.panels) + inRow - 1) / inRow
	most := 0
	for _, p := range g.panels {
		most = max(most, len(p.lines))
	}
	rowHeight := panelHeight + float64(most)*legendLine + 10
	width, height := float64(inRow)*panelWidth, plotHead+float64(rows)*rowHeight
	out.Printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" class="breakwater"><title>%s</title><style>%s</style>`,
		width, height, html.EscapeString(g.title), plotStyle)
	out.Printf(`<rect class="panel" width="%g" height="%g" rx="8"/><text class="strong" x="16" y="24">%s</text>`,
		width, height, html.EscapeString(g.title))
	for i, p := range g.panels {
		at := frame{x: float64(i%inRow) * panelWidth, y: plotHead + float64(i/inRow)*rowHeight, steps: g.steps(results)}
		at.draw(&out, p, g.by, results)
	}
	out.Printf("</svg>\n")
	return out.String()
}

// frame is the position of a panel, and its axes.
type frame struct {
	x, y  float64
	steps []float64
	top   float64 // the value at the upper edge
}

func (f *frame) draw(out *plot.Canvas, p panel, by string, results []result) {
	f.top = 1e-9
	for _, l := range p.lines {
		for _, at := range l.points(results) {
			f.top = max(f.top, at.y)
		}
	}
	step := plot.Step(f.top / 4)
	f.top = math.Ceil(f.top/step) * step
	right := f.x + panelWidth - plotRight
	out.Printf(`<text class="strong" x="%.1f" y="%.1f">%s</text>`, f.x+plotLeft, f.y+plotTop-16, html.EscapeString(p.title))
	for value := 0.0; value <= f.top+step/2; value += step {
		out.Printf(`<path class="grid" d="M%.1f %.1fH%.1f"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`,
			f.x+plotLeft, f.height(value), right, f.x+plotLeft-6, f.height(value)+4, grouped(math.Round(value/step)*step))
	}
	for _, x := range f.steps {
		out.Printf(`<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, f.across(x), f.height(0)+16, grouped(x))
	}
	out.Printf(`<path class="axis" d="M%.1f %.1fH%.1f"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`,
		f.x+plotLeft, f.height(0), right, right, f.height(0)+30, by)
	drawn := 0
	for _, l := range p.lines {
		if len(l.points(results)) > 0 {
			f.line(out, drawn, l, results)
			drawn++
		}
	}
}

// line draws one line with its legend.
func (f *frame) line(out *plot.Canvas, i int, l line, results []result) {
	var path strings.Builder
	for n, at := range l.points(results) {
		fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[n == 0], f.across(at.x), f.height(at.y))
	}
	out.Printf(`<path class="line l%d" d="%s"/>`, i, path.String())
	for _, at := range l.points(results) {
		out.Printf(`<circle class="line dot l%d" cx="%.1f" cy="%.1f" r="3"/>`, i, f.across(at.x), f.height(at.y))
	}
	y := f.y + panelHeight + 14 + float64(i)*legendLine
	out.Printf(`<path class="line l%d" d="M%.1f %.1fh26"/><text x="%.1f" y="%.1f">%s</text>`,
		i, f.x+plotLeft, y-4, f.x+plotLeft+32, y, html.EscapeString(l.label))
}

// across returns the x coordinate of a step.
func (f *frame) across(x float64) float64 {
	for i, step := range f.steps {
		if step == x {
			return f.x + plotLeft + (panelWidth-plotLeft-plotRight)*(float64(i)+0.5)/float64(len(f.steps))
		}
	}
	return f.x + plotLeft
}

// height returns the y coordinate of a value.
func (f *frame) height(value float64) float64 {
	return f.y + panelHeight - plotBottom - value/f.top*(panelHeight-plotTop-plotBottom)
}

// Package replay renders a recorded storm: as an SVG of available pods, reservations and answers, and as a table with a row for each second.
// It is pure.
package replay

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"

	"github.com/breakwater-k8s/breakwater/e2e/harness/demo/report"
	"github.com/breakwater-k8s/breakwater/e2e/harness/plot"
)

// The layout in units of the viewBox. Lanes are stacked vertically.
const (
	width, height                     = 960.0, 640.0
	left, right                       = 48.0, 28.0
	slice                             = 0.25 // seconds of one bar of the lowest lane
	badgeY                            = 46.0
	podsTop, podsSpan                 = 80.0, 230.0
	reservationsTop, reservationsSpan = 352.0, 90.0
	requestsTop, requestsSpan         = 484.0, 90.0
	axisY, marksLegend                = 592.0, 622.0
)

// drawing is an SVG in progress.
type drawing struct {
	plot.Canvas
	report  report.Report
	seconds float64
}

// SVG draws the run with Breakwater. It is self-contained and readable on a light and on a dark page. Its animation, a vertical line that
// moves in real time, is optional.
func SVG(r report.Report) string {
	d := &drawing{report: r, seconds: end(r)}
	d.Printf(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	d.Printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" aria-labelledby="title desc" class="breakwater">`, width, height)
	d.Printf(`<title id="title">A deletion storm on %d pods in %d cells, with a floor of %d</title><desc id="desc">%s</desc>`,
		r.Pods, len(r.Cells), r.Floor, html.EscapeString(describe(r)))
	d.Printf(`<style>%s .breakwater .hand{animation:go %gs linear infinite}@keyframes go{to{transform:translateX(%gpx)}}</style>`,
		style, d.seconds, width-left-right)
	d.Printf(`<rect class="panel" width="%g" height="%g" rx="8"/>`, width, height)
	d.legend()
	d.marks()
	d.pods()
	d.reservations()
	d.requests()
	d.axis()
	d.Printf(`<path class="hand" d="M%g %gV%g"/></svg>`+"\n", left, podsTop-8, axisY-18)
	return d.String()
}

const style = plot.Style + `
.breakwater .c0{fill:#0969da}.breakwater .c1{fill:#79b8ff}.breakwater .refused{fill:#bf5000}.breakwater .admitted{fill:#1a7f64}
.breakwater .hand{stroke:#d1242f;stroke-width:2}
@media (prefers-color-scheme:dark){
.breakwater .c0{fill:#388bfd}.breakwater .c1{fill:#a5d6ff}.breakwater .refused{fill:#f0883e}.breakwater .admitted{fill:#3fb68b}
.breakwater .hand{stroke:#ff7b72}}
@media (prefers-reduced-motion:reduce){.breakwater .hand{display:none}}`

func (d *drawing) x(seconds float64) float64 { return left + seconds/d.seconds*(width-left-right) }

// end returns the end of the time axis, in whole seconds.
func end(r report.Report) float64 {
	last := 1.0
	for _, p := range r.Protected.Timeline {
		last = math.Max(last, p.Seconds)
	}
	return math.Ceil(last)
}

func describe(r report.Report) string {
	return fmt.Sprintf("Three rows over time. Available pods by cell: never fewer than %d, the floor is %d. Open reservations by cell: they rise as removals are admitted, "+
		"and fall as cells have counted them. Requests of the storm in each quarter of a second: %d were admitted and %d refused in all.",
		r.Protected.MinAvailable, r.Floor, r.Protected.Admitted, r.Protected.Refused)
}

func (d *drawing) legend() {
	x := left
	add := func(class, name string) {
		d.Printf(`<rect class="%s" x="%g" y="14" width="14" height="14" rx="2"/><text x="%g" y="26">%s</text>`, class, x, x+20, html.EscapeString(name))
		x += 20 + plot.TextWidth(name) + 18
	}
	for i, cell := range d.report.Cells {
		add(fmt.Sprintf("c%d", i%2), cell)
	}
	add("admitted", "admitted")
	add("refused", "refused")
}

// marks draws the starts of the attacks and of the recovery.
func (d *drawing) marks() {
	x, badge := left, 0.0
	for i, m := range Marks(d.report) {
		at := d.x(m.Seconds)
		badge = plot.BesideBadge(at, badge)
		d.Printf(`<path class="mark" d="M%.1f %gV%g"/>`, at, badgeY+9, axisY-18)
		d.Badge(badge, badgeY, i+1)
		d.Badge(x+9, marksLegend, i+1)
		d.Printf(`<text x="%.1f" y="%g">%s</text>`, x+24, marksLegend+4.5, html.EscapeString(m.Name))
		x += 24 + plot.TextWidth(m.Name) + 18
	}
}

// Mark is an event of the storm.
type Mark struct {
	Seconds float64
	Name    string
}

// Marks returns the start of each attack and of the recovery deployment.
func Marks(r report.Report) (all []Mark) {
	for _, attack := range r.Protected.PerAttack {
		all = append(all, Mark{attack.BeginSeconds, attack.Name})
	}
	if r.Protected.Recovery != nil {
		all = append(all, Mark{r.Protected.Recovery.BeginSeconds, "deployed again"})
	}
	slices.SortStableFunc(all, func(a, b Mark) int { return cmp.Compare(a.Seconds, b.Seconds) })
	return all
}

// Package replay shows a recorded storm: as a picture of what the cells had, what the protector said and what requests were answered, and as a
// table of each second. It is pure.
package replay

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"github.com/breakwater-k8s/breakwater/e2e/harness/demo/report"
)

// The picture, in units of its viewBox. Lanes stand one below the other.
const (
	width, height      = 960.0, 640.0
	left, right        = 48.0, 28.0
	slice              = 0.25 // seconds that one bar of the lowest lane tells of
	badgeY             = 46.0
	podsTop, podsSpan  = 80.0, 230.0
	holdTop, holdSpan  = 352.0, 90.0
	askTop, askSpan    = 484.0, 90.0
	axisY, marksLegend = 592.0, 622.0
)

// drawing is a picture that is drawn.
type drawing struct {
	report  report.Report
	seconds float64
	out     strings.Builder
}

// SVG draws the run with Breakwater. It needs nothing else, can be read on a light and on a dark page, and without its animation, which is a
// hand that goes over it in the time that the storm took.
func SVG(r report.Report) string {
	d := &drawing{report: r, seconds: end(r)}
	d.printf(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" aria-labelledby="title desc">`, width, height)
	d.printf(`<title id="title">A deletion storm on %d pods in %d cells, with a floor of %d</title><desc id="desc">%s</desc>`,
		r.Pods, len(r.Cells), r.Floor, html.EscapeString(describe(r)))
	d.printf(`<style>%s .hand{animation:go %gs linear infinite}@keyframes go{to{transform:translateX(%gpx)}}</style>`, style, d.seconds, width-left-right)
	d.printf(`<rect class="panel" width="%g" height="%g" rx="8"/>`, width, height)
	d.legend()
	d.marks()
	d.pods()
	d.reservations()
	d.requests()
	d.axis()
	d.printf(`<path class="hand" d="M%g %gV%g"/></svg>`+"\n", left, podsTop-8, axisY-18)
	return d.out.String()
}

const style = `text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#3d444d}
.panel{fill:#fff;stroke:#d1d9e0}.grid{stroke:#d1d9e0}.title{font-weight:600;fill:#1f2328}
.c0{fill:#0969da}.c1{fill:#79b8ff}.refused{fill:#bf5000}.admitted{fill:#1a7f64}
.floor{stroke:#1f2328;stroke-width:1.5;stroke-dasharray:6 4}.mark{stroke:#818b98;stroke-dasharray:2 3}
.badge{fill:#59636e}.number{fill:#fff;font-size:11px;font-weight:600}.hand{stroke:#d1242f;stroke-width:2}
@media (prefers-color-scheme:dark){text{fill:#c8d1da}.panel{fill:#0d1117;stroke:#3d444d}.grid{stroke:#2a313c}.title{fill:#f0f6fc}
.c0{fill:#388bfd}.c1{fill:#a5d6ff}.refused{fill:#f0883e}.admitted{fill:#3fb68b}.floor{stroke:#f0f6fc}.mark{stroke:#656c76}
.badge{fill:#9198a1}.number{fill:#0d1117}.hand{stroke:#ff7b72}}
@media (prefers-reduced-motion:reduce){.hand{display:none}}`

func (d *drawing) printf(format string, arguments ...any) { fmt.Fprintf(&d.out, format, arguments...) }

func (d *drawing) x(seconds float64) float64 { return left + seconds/d.seconds*(width-left-right) }

// end is when the picture ends, in whole seconds.
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
		d.printf(`<rect class="%s" x="%g" y="14" width="14" height="14" rx="2"/><text x="%g" y="26">%s</text>`, class, x, x+20, html.EscapeString(name))
		x += 20 + 7.2*float64(len(name)) + 18
	}
	for i, cell := range d.report.Cells {
		add(fmt.Sprintf("c%d", i%2), cell)
	}
	add("admitted", "admitted")
	add("refused", "refused")
}

// marks are the attacks, and the recovery.
func (d *drawing) marks() {
	x := left
	for i, m := range Marks(d.report) {
		at := d.x(m.Seconds)
		d.printf(`<path class="mark" d="M%.1f %gV%g"/>`, at, badgeY+9, axisY-18)
		d.badge(at, badgeY, i+1)
		d.badge(x+9, marksLegend, i+1)
		d.printf(`<text x="%.1f" y="%g">%s</text>`, x+24, marksLegend+4.5, html.EscapeString(m.Name))
		x += 24 + 7.2*float64(len(m.Name)) + 18
	}
}

func (d *drawing) badge(x, y float64, number int) {
	d.printf(`<circle class="badge" cx="%.1f" cy="%g" r="9"/><text class="number" x="%.1f" y="%g" text-anchor="middle">%d</text>`, x, y, x, y+4, number)
}

// Mark is a moment of the storm.
type Mark struct {
	Seconds float64
	Name    string
}

// Marks are when each attack began, and when the application was deployed again.
func Marks(r report.Report) (all []Mark) {
	for _, attack := range r.Protected.PerAttack {
		all = append(all, Mark{attack.BeginSeconds, attack.Name})
	}
	if r.Protected.Recovery != nil {
		all = append(all, Mark{r.Protected.Recovery.BeginSeconds, "deployed again"})
	}
	slices.SortStableFunc(all, func(a, b Mark) int { return int(math.Copysign(1, a.Seconds-b.Seconds)) })
	return all
}

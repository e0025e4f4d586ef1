package replay

import (
	"fmt"
	"math"
	"strings"
)

// lane is a row of the SVG, with a scale from 0 to most.
type lane struct {
	*drawing
	top, span, maximum float64
}

func (l lane) y(value float64) float64 { return l.top + l.span - value/l.maximum*l.span }

// frame draws title and grid.
func (l lane) frame(title string, step float64) {
	l.Printf(`<text class="strong" x="%g" y="%g">%s</text>`, left, l.top-8, title)
	for at := 0.0; at <= l.maximum; at += step {
		l.Printf(`<path class="grid" d="M%g %.1fH%g"/><text x="%g" y="%.1f" text-anchor="end">%g</text>`, left, l.y(at), width-right, left-8, l.y(at)+4.5, at)
	}
}

// step has the values from a time on, by cell.
type step struct {
	seconds float64
	cells   []int
}

// stack draws steps as stacked areas, with the first cell at the bottom.
func (l lane) stack(steps []step) {
	for cell := range l.report.Cells {
		var over, under strings.Builder
		last := l.x(l.seconds)
		for i, s := range steps {
			from, to := l.x(s.seconds), last
			if i+1 < len(steps) {
				to = l.x(steps[i+1].seconds)
			}
			low, high := l.y(sum(s.cells[:cell])), l.y(sum(s.cells[:cell+1]))
			fmt.Fprintf(&over, "L%.1f %.1fH%.1f", from, high, to)
			back := fmt.Sprintf("L%.1f %.1fH%.1f", to, low, from)
			rest := under.String()
			under.Reset()
			under.WriteString(back + rest)
		}
		if len(steps) > 0 {
			l.Printf(`<path class="c%d" d="M%s%sZ"/>`, cell%2, strings.TrimPrefix(over.String(), "L"), under.String())
		}
	}
}

func sum(values []int) (total float64) {
	for _, v := range values {
		total += float64(v)
	}
	return total
}

// largestSum returns the largest sum of any step.
func largestSum(steps []step) (largest float64) {
	for _, s := range steps {
		largest = math.Max(largest, sum(s.cells))
	}
	return largest
}

// pods draws the lane of available pods with the floor.
func (d *drawing) pods() {
	var steps []step
	for _, p := range d.report.Protected.Timeline {
		steps = append(steps, step{p.Seconds, p.Cells})
	}
	l := lane{d, podsTop, podsSpan, math.Max(largestSum(steps), math.Max(float64(d.report.Pods), 1))}
	l.frame(fmt.Sprintf("available pods, by cell; the floor is %d", d.report.Floor), 20)
	l.stack(steps)
	y := l.y(float64(d.report.Floor))
	d.Printf(`<path class="floor" d="M%g %.1fH%g"/><text class="strong" x="%g" y="%.1f" text-anchor="end">floor</text>`,
		left, y, width-right, left-8, y-10)
}

// reservations draws the lane of open reservations: admitted removals that are not counted yet.
func (d *drawing) reservations() {
	var steps []step
	for _, e := range d.report.Protected.Ledger {
		steps = append(steps, step{e.Seconds, e.Reserved})
	}
	l := lane{d, reservationsTop, reservationsSpan, math.Max(largestSum(steps), 10)}
	l.frame("open reservations, by cell: up when removals are admitted, down when the cell has counted them", 10)
	l.stack(steps)
}

// requests draws the lane of answers in each time slice.
func (d *drawing) requests() {
	count := int(math.Ceil(d.seconds / slice))
	admitted, refused := make([]int, count+1), make([]int, count+1)
	for i, e := range d.report.Protected.Ledger {
		before := e
		before.Admitted, before.Refused = 0, 0
		if i > 0 {
			before = d.report.Protected.Ledger[i-1]
		}
		at := min(int(e.Seconds/slice), count)
		admitted[at] += e.Admitted - before.Admitted
		refused[at] += e.Refused - before.Refused
	}
	largest := 1
	for i := range admitted {
		largest = max(largest, admitted[i]+refused[i])
	}
	l := lane{d, requestsTop, requestsSpan, float64(largest)}
	l.frame("answers to the storm, in each quarter of a second", math.Max(1, math.Ceil(float64(largest)/30)*10))
	for i := range admitted {
		low := l.y(float64(admitted[i]))
		l.bar("admitted", i, l.y(0), low)
		l.bar("refused", i, low, l.y(float64(admitted[i]+refused[i])))
	}
}

func (l lane) bar(class string, at int, from, to float64) {
	if from == to {
		return
	}
	x := l.x(float64(at) * slice)
	l.Printf(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, class, x+.5, to, l.x(float64(at+1)*slice)-x-1, from-to)
}

func (d *drawing) axis() {
	for second := 0.0; second <= d.seconds; second += 2 {
		d.Printf(`<text x="%.1f" y="%g" text-anchor="middle">%g s</text>`, d.x(second), axisY, second)
	}
}

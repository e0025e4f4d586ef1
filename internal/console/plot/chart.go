// Package plot computes the coordinates of charts: numbers of pods over time as steps, and denials as marks. Templates draw them.
//
// It is pure: it takes values and a time, and returns values.
package plot

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/console/history"
)

// Chart is a chart of available pods and the floor over time, in units of an image of Width by Height.
type Chart struct {
	Width, Height            int
	Left, Right, Top, Bottom float64
	// Available and Floor are SVG paths of the lines. Room and Lack are paths of the areas between them: above and below the floor.
	Available, Floor, Room, Lack string
	// Dips is a path of vertical strokes down to the lowest number within each slot.
	Dips  string
	Marks []Mark
	// Gaps are the times of which nothing is known.
	Gaps []Gap
	X, Y []Tick
	// Empty reports whether the window has no data.
	Empty bool
}

// Mark marks a slot in which removals were denied.
type Mark struct {
	X, Top, Height float64
	Title          string
}

// Gap is a time of which nothing is known.
type Gap struct {
	X, Width float64
	Title    string
}

// Wide, Medium and Narrow are the widths for three classes of screens, so that text has the same size on each.
const (
	Wide   = 1400
	Medium = 820
	Narrow = 340
	height = 220
)

// New lays out the points of the window that ends now, from the first to the last.
func New(points []history.Point, now time.Time, window time.Duration, width int) Chart {
	from, to := span(points, now, window)
	f := &frame{left: 44, right: float64(width) - 8, top: 12, bottom: height - 40, from: from, to: to}
	c := Chart{Width: width, Height: height, Left: f.left, Right: f.right, Top: f.top, Bottom: f.bottom}
	points = mergeColumns(points, f)
	least, most, known := extremes(points)
	c.Empty = !known
	var every float64
	f.low, f.high, every = bounds(least, most)
	for pods := f.low; pods <= f.high; pods += every {
		c.Y = append(c.Y, Tick{At: f.y(pods), Label: strconv.Itoa(int(pods))})
	}
	c.X = f.timeTicks(max(width/130, 3))
	c.draw(points, f)
	return c
}

// mergeColumns merges points that fall on the same pixel.
func mergeColumns(points []history.Point, f *frame) (merged []history.Point) {
	for _, p := range points {
		if n := len(merged); n > 0 && math.Floor(f.x(merged[n-1].At)) == math.Floor(f.x(p.At)) {
			last := &merged[n-1]
			if p.Last.Known && (!last.Last.Known || p.Lowest < last.Lowest) {
				last.Lowest = p.Lowest
			}
			last.Last, last.Denied = p.Last, last.Denied+p.Denied
			continue
		}
		merged = append(merged, p)
	}
	return merged
}

func extremes(points []history.Point) (least, most float64, known bool) {
	for _, p := range points {
		if !p.Last.Known {
			continue
		}
		low, high := float64(min(p.Lowest, p.Last.Available)), float64(p.Last.Available)
		if p.Last.FloorKnown {
			low, high = min(low, float64(p.Last.Floor)), max(high, float64(p.Last.Floor))
		}
		if !known {
			least, most, known = low, high, true
		}
		least, most = min(least, low), max(most, high)
	}
	return least, most, known
}

// pen writes a path of steps, which can have gaps.
type pen struct {
	path strings.Builder
	down bool
}

func (p *pen) step(from, to, y float64) {
	if p.down {
		fmt.Fprintf(&p.path, "V%gH%g", y, to)
		return
	}
	fmt.Fprintf(&p.path, "M%g %gH%g", from, y, to)
	p.down = true
}

func (p *pen) lift() { p.down = false }

func (c *Chart) draw(points []history.Point, f *frame) {
	var available, floor pen
	var room, lack, dips strings.Builder
	for i, p := range points {
		from, to := f.x(p.At), f.right
		if i+1 < len(points) {
			to = f.x(points[i+1].At)
		}
		if p.Denied > 0 {
			c.addMark(p, from)
		}
		if !p.Last.Known {
			available.lift()
			floor.lift()
			c.addGap(p, from, to)
			continue
		}
		y := f.y(float64(p.Last.Available))
		available.step(from, to, y)
		if p.Lowest < p.Last.Available {
			fmt.Fprintf(&dips, "M%g %gV%g", from, y, f.y(float64(p.Lowest)))
		}
		if !p.Last.FloorKnown {
			floor.lift()
			continue
		}
		ground := f.y(float64(p.Last.Floor))
		floor.step(from, to, ground)
		area := &room
		if p.Last.Available < p.Last.Floor {
			area = &lack
		}
		fmt.Fprintf(area, "M%g %gH%gV%gH%gZ", from, y, to, ground, from)
	}
	c.Available, c.Floor, c.Room, c.Lack, c.Dips = available.path.String(), floor.path.String(), room.String(), lack.String(), dips.String()
}

// addGap adds a gap from a point that begins it.
func (c *Chart) addGap(p history.Point, from, to float64) {
	if to > from {
		c.Gaps = append(c.Gaps, Gap{X: from, Width: round(to - from), Title: p.At.UTC().Format("15:04:05") + " UTC: no data"})
	}
}

// addMark adds a mark whose height grows with the logarithm of the denials.
func (c *Chart) addMark(p history.Point, x float64) {
	tall := min(6+4*math.Log10(float64(p.Denied)), 18)
	c.Marks = append(c.Marks, Mark{
		X: x, Top: round(c.Bottom + 20 - tall), Height: round(tall), Title: fmt.Sprintf("%s UTC: %d refused", p.At.UTC().Format("15:04:05"), p.Denied),
	})
}

// Bar is a protector's budget as a bar of 100 units: pods that stay, pods whose removal is under way, and the position of the floor.
type Bar struct {
	Stay, Reserved, Floor float64
	FloorKnown            bool
}

// NewBar computes a bar. The whole bar is the largest of the expected pods, the available pods and the floor.
func NewBar(available, reserved, floor int, floorKnown bool, expected *int) Bar {
	whole := max(available, floor, 1)
	if expected != nil {
		whole = max(whole, *expected)
	}
	unit := 100 / float64(whole)
	reserved = min(max(reserved, 0), max(available, 0))
	return Bar{
		Stay: round(float64(max(available, 0)-reserved) * unit), Reserved: round(float64(reserved) * unit), Floor: round(float64(floor) * unit),
		FloorKnown: floorKnown,
	}
}

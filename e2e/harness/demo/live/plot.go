package live

import (
	"math"
	"slices"
	"strings"
	"time"
)

// minSpan is the initial time range of the plot. Longer runs are compressed to fit.
const minSpan = 15 * time.Second

// eighth returns a block character filled from below by n eighths, 1 to 8.
func eighth(n int) rune { return '▁' + rune(n-1) }

// glyph is one character of the plot.
type glyph struct {
	rune  rune
	paint paint
}

// plot draws the available pods over time as columns, with a line at the floor. Each column shows the minimum
// of its time range, so that a short dip is visible.
func plot(s Scene, width, height int) [][]glyph {
	most := max(s.Pods, s.Floor, 1)
	for _, p := range s.History {
		most = max(most, p.Total)
	}
	rows := make([][]glyph, height)
	for i := range rows {
		rows[i] = slices.Repeat([]glyph{{rune: ' '}}, width)
	}
	// The floor is drawn in the row whose columns end at it, and is hidden by columns that reach it.
	floorRow := height - 1 - min(height-1, max(0, (s.Floor*height-1)/most))
	for x := range rows[floorRow] {
		rows[floorRow][x] = glyph{rune: '╌', paint: floorPaint}
	}
	for x, value := range columns(s, width) {
		if value < 0 {
			continue
		}
		colour := abovePaint
		if value < s.Floor {
			colour = belowPaint
		}
		filled := int(math.Round(float64(value) / float64(most) * float64(height) * 8))
		for y := range height {
			part := min(8, max(0, filled-8*y))
			if part == 0 {
				continue
			}
			rows[height-1-y][x] = glyph{rune: eighth(part), paint: colour}
		}
	}
	return rows
}

// columns returns the minimum of available pods in the time range of each column, -1 where no value is known yet.
func columns(s Scene, width int) []int {
	values := slices.Repeat([]int{-1}, width)
	span := max(minSpan, s.Elapsed)
	column := func(at time.Duration) int {
		return min(width-1, int(float64(at)/float64(span)*float64(width)))
	}
	points := append(slices.Clone(s.History), s.Now)
	for i, p := range points {
		last := column(s.Elapsed)
		if i+1 < len(points) {
			last = column(points[i+1].At)
		}
		for x := column(p.At); x <= last; x++ {
			if values[x] < 0 || p.Total < values[x] {
				values[x] = p.Total
			}
		}
	}
	return values
}

// render converts a row to text with the fewest color changes.
func render(row []glyph, colours bool) string {
	var out strings.Builder
	for start := 0; start < len(row); {
		end := start
		var text strings.Builder
		for ; end < len(row) && row[end].paint == row[start].paint; end++ {
			text.WriteRune(row[end].rune)
		}
		out.WriteString(row[start].paint.on(text.String(), colours))
		start = end
	}
	return out.String()
}

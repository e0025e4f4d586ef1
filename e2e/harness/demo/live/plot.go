package live

import (
	"math"
	"slices"
	"strings"
	"time"
)

// minSpan is what the plot's whole width shows at first; a longer run is squeezed into it.
const minSpan = 15 * time.Second

// eighth is a block that is filled from below, by 1 to 8 eighths.
func eighth(n int) rune { return '▁' + rune(n-1) }

// glyph is one place of the plot.
type glyph struct {
	rune  rune
	paint paint
}

// plot draws the available pods over time as columns, with a line at the floor. Each column shows the least value
// of its time: a dip must not be lost between two columns.
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

// columns gives the least number of available pods in the time of each column, -1 where nothing is known yet.
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

// render turns a row into text, with as few changes of colour as it takes.
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

package live

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// The minimum terminal size for a frame. Smaller terminals get plain lines.
const (
	MinWidth  = 32
	MinHeight = 14
)

const (
	axisWidth   = 5 // "100 │"
	maxPlotRows = 10
)

// Frame draws a scene for a terminal of that size. It returns at most height lines, each at most width wide.
func Frame(s Scene, width, height int, colours bool) []string {
	f := frame{scene: s, width: width, colours: colours}
	f.head()
	attacks := f.attackLines()
	f.plot(min(maxPlotRows, height-len(f.lines)-len(attacks)-2))
	f.current()
	f.lines = append(f.lines, attacks...)
	return f.lines[:min(len(f.lines), height)]
}

type frame struct {
	scene   Scene
	width   int
	colours bool
	lines   []string
}

// add appends a line, truncated to the width.
func (f *frame) add(text string, p paint) {
	f.lines = append(f.lines, p.on(clip(text, f.width), f.colours))
}

func clip(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(0, width-1)]) + "…"
}

func (f *frame) head() {
	elapsed := fmt.Sprintf("%.0f s", f.scene.Elapsed.Seconds())
	title := clip(f.scene.Title, f.width-len(elapsed)-2)
	gap := f.width - utf8.RuneCountInString(title) - len(elapsed)
	f.lines = append(f.lines, titlePaint.on(title, f.colours)+strings.Repeat(" ", max(1, gap))+softPaint.on(elapsed, f.colours))
	f.add(f.scene.Phase, softPaint)
}

func (f *frame) plot(rows int) {
	if rows < 2 {
		return
	}
	drawn := plot(f.scene, f.width-axisWidth, rows)
	most := max(f.scene.Pods, f.scene.Floor, 1)
	for _, p := range f.scene.History {
		most = max(most, p.Total)
	}
	for i, row := range drawn {
		label := ""
		switch i {
		case 0:
			label = fmt.Sprint(most)
		case rows - 1:
			label = "0"
		}
		for _, g := range row {
			// The row of the floor shows its number, unless it is the top row.
			if g.rune == '╌' && i > 0 {
				label = fmt.Sprint(f.scene.Floor)
			}
		}
		f.lines = append(f.lines, softPaint.on(fmt.Sprintf("%4s│", label), f.colours)+render(row, f.colours))
	}
}

func (f *frame) current() {
	total := f.scene.Now.Total
	state, p := fmt.Sprintf("%d available, floor %d", total, f.scene.Floor), goodPaint
	if total < f.scene.Floor {
		state, p = fmt.Sprintf("%d available, %d below the floor of %d", total, f.scene.Floor-total, f.scene.Floor), badPaint
	}
	f.add(state, p)
	f.add(cellsText(f.scene), plainPaint)
}

func cellsText(s Scene) string {
	var cells []string
	for i, name := range s.Cells {
		if i < len(s.Now.Cells) {
			cells = append(cells, fmt.Sprintf("%s %d", name, s.Now.Cells[i]))
		}
	}
	return strings.Join(cells, "  ")
}

// attackLines returns a table of the attacks. A narrow terminal gets fewer columns.
func (f *frame) attackLines() []string {
	name := 16
	row := func(label string, c storm.Counts) string {
		line := fmt.Sprintf("%-*s %7d %8d %7d", name, label, c.Attempted, c.Admitted, c.Refused)
		if f.width >= 60 {
			line += fmt.Sprintf(" %7d %6d", c.Missed, c.Failed)
		}
		return line
	}
	head := fmt.Sprintf("%-*s %7s %8s %7s", name, "", "asked", "admitted", "refused")
	if f.width >= 60 {
		head += fmt.Sprintf(" %7s %6s", "missed", "failed")
	}
	if f.width < len(head) {
		c := f.scene.counts()
		return []string{
			clip(fmt.Sprintf("asked %d, admitted %d", c.Attempted, c.Admitted), f.width),
			clip(fmt.Sprintf("refused %d", c.Refused), f.width),
		}
	}
	lines := []string{softPaint.on(head, f.colours)}
	for _, p := range f.scene.Progress {
		text := row(clip(p.Attack, name), p.Counts)
		switch {
		case p.Began.IsZero():
			text = softPaint.on(text, f.colours)
		case p.Ended.IsZero():
			text = titlePaint.on(text, f.colours)
		}
		lines = append(lines, text)
	}
	return append(lines, row("all", f.scene.counts()))
}

// Line describes a scene in one line.
func Line(s Scene) string {
	c := s.counts()
	return fmt.Sprintf("%3.0f s  %s: %d available (%s), floor %d; asked %d, admitted %d, refused %d",
		s.Elapsed.Seconds(), s.Phase, s.Now.Total, strings.ReplaceAll(cellsText(s), "  ", ", "), s.Floor,
		c.Attempted, c.Admitted, c.Refused)
}

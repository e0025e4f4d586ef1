package report

import "html"

// mark is something that happened at one time.
type mark struct {
	Number  int
	Seconds float64
	Label   string
}

// marks are the beginnings of the attacks, as the run with Breakwater had them (both runs follow one plan), and
// the recovery.
func (r Report) marks() []mark {
	var marks []mark
	for _, attack := range r.Protected.PerAttack {
		marks = append(marks, mark{Seconds: attack.BeginSeconds, Label: attack.Name})
	}
	if recovery := r.Protected.Recovery; recovery != nil {
		marks = append(marks, mark{Seconds: recovery.BeginSeconds, Label: "with Breakwater: deployed again"})
	}
	for i := range marks {
		marks[i].Number = i + 1
	}
	return marks
}

// marks draws numbers at the times and lists below the plot what they stand for: labels at the times would
// overlap.
func (c *chart) marks() {
	marks := c.report.marks()
	for _, m := range marks {
		x := c.x(m.Seconds)
		c.printf(`<path class="mark" d="M%.1f %.1fV%.1f"/>`, x, c.top, c.y(0))
		c.badge(x, c.top, m.Number)
	}
	x, y := c.left, c.y(0)+46
	for _, m := range marks {
		width := 34 + 7*float64(len(m.Label))
		if x > c.left && x+width > c.width-c.right {
			x, y = c.left, y+24
		}
		c.badge(x+8, y, m.Number)
		c.printf(`<text x="%.1f" y="%.1f">%s</text>`, x+22, y+4.5, html.EscapeString(m.Label))
		x += width
	}
}

func (c *chart) badge(x, y float64, number int) {
	c.printf(`<circle class="badge" cx="%.1f" cy="%.1f" r="8"/><text class="number" x="%.1f" y="%.1f" text-anchor="middle">%d</text>`,
		x, y, x, y+4, number)
}

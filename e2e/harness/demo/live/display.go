package live

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Display writes messages and scenes. Close restores the terminal.
type Display struct {
	mu  sync.Mutex
	out io.Writer
	// size returns the terminal's size; ok is false if frames cannot be drawn.
	size    func() (width, height int, ok bool)
	colours bool

	drawn    int // lines of the frame on the screen
	width    int // terminal width of that frame
	lastLine time.Duration
	lineDue  bool
}

// linePause is the interval between plain lines.
const linePause = time.Second

// NewDisplay draws frames if out is a terminal that can show them, and writes plain lines otherwise. NO_COLOR, if it
// is not empty, turns colours off (https://no-color.org).
func NewDisplay(out *os.File, getenv func(string) string) *Display {
	descriptor := int(out.Fd())
	drawable := term.IsTerminal(descriptor) && getenv("TERM") != "dumb"
	return &Display{
		out: out,
		size: func() (int, int, bool) {
			width, height, err := term.GetSize(descriptor)
			return width, height, drawable && err == nil
		},
		colours: drawable && getenv("NO_COLOR") == "",
		lineDue: true,
	}
}

// Printf writes a permanent line below the frame on the screen.
func (d *Display) Printf(format string, arguments ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leaveFrame()
	d.write(fmt.Sprintf(format, arguments...) + "\n")
}

// Show draws a scene over the one before, or writes a plain line if the last one is a second old.
func (d *Display) Show(s Scene) {
	d.mu.Lock()
	defer d.mu.Unlock()
	width, height, ok := d.size()
	// Some terminals wrap a line of their full width, and the cursor needs its own line.
	width, height = width-1, height-1
	if !ok || width < MinWidth || height < MinHeight {
		d.leaveFrame()
		if d.lineDue || s.Elapsed < d.lastLine || s.Elapsed-d.lastLine >= linePause {
			d.lastLine, d.lineDue = s.Elapsed, false
			d.write(Line(s) + "\n")
		}
		return
	}
	if width < d.width {
		d.leaveFrame() // its lines were wrapped, so their number is unknown
	}
	d.width = width
	var b strings.Builder
	if d.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", d.drawn)
	} else {
		b.WriteString("\x1b[?25l") // hide the cursor
	}
	lines := Frame(s, width, height, d.colours)
	for _, line := range lines {
		b.WriteString("\x1b[2K" + line + "\n")
	}
	b.WriteString("\x1b[J") // clears the rest of a longer frame
	d.drawn = len(lines)
	d.write(b.String())
}

// write ignores errors: the display is optional, and the report has all results.
func (d *Display) write(text string) { _, _ = io.WriteString(d.out, text) }

// Leave keeps the frame on the screen. The next one is drawn below it.
func (d *Display) Leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leaveFrame()
	d.lineDue = true
}

func (d *Display) leaveFrame() {
	if d.drawn > 0 {
		d.drawn = 0
		d.write("\x1b[?25h")
	}
}

// Close shows the cursor again.
func (d *Display) Close() { d.Leave() }

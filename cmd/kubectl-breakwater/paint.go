package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// paint is a text style: the parameters of an SGR sequence. The output never conveys information by color alone.
type paint string

const (
	plain  paint = ""
	strong paint = "1"
	soft   paint = "2"
	good   paint = "32"
	warn   paint = "33"
	bad    paint = "1;31"
)

// reset ends the style of a paint.
const reset = "\x1b[0m"

func colours() []string { return []string{"auto", "always", "never"} }

// coloured reports whether output to out is colored.
func (p *plugin) coloured(out io.Writer) bool {
	switch p.colour {
	case "always":
		return true
	case "never":
		return false
	}
	file, ok := printable.Unwrap(out).(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func (c paint) on(text string, coloured bool) string {
	if !coloured || c == plain || text == "" {
		return text
	}
	return c.begin() + text + reset
}

func (c paint) begin() string { return "\x1b[" + string(c) + "m" }

package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// paint is a terminal's way to show a text: the parameters of an SGR sequence. Nothing is told by colour alone.
type paint string

const (
	plain  paint = ""
	strong paint = "1"
	soft   paint = "2"
	good   paint = "32"
	warn   paint = "33"
	bad    paint = "1;31"
)

// reset ends what a paint began.
const reset = "\x1b[0m"

func colours() []string { return []string{"auto", "always", "never"} }

// coloured tells whether to colour what is written to out.
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

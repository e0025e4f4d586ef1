package main

import (
	"io"
	"os"

	"golang.org/x/term"
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

func colours() []string { return []string{"auto", "always", "never"} }

// coloured tells whether to colour what is written to out.
func (p *plugin) coloured(out io.Writer) bool {
	switch p.colour {
	case "always":
		return true
	case "never":
		return false
	}
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func (c paint) on(text string, coloured bool) string {
	if !coloured || c == plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

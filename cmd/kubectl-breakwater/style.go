package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// textStyle is a text style: the parameters of an SGR sequence. The output never conveys information by color alone.
type textStyle string

const (
	plain  textStyle = ""
	strong textStyle = "1"
	soft   textStyle = "2"
	good   textStyle = "32"
	warn   textStyle = "33"
	bad    textStyle = "1;31"
)

// reset ends a style.
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
	file, ok := underneath(out).(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func (c textStyle) apply(text string, coloured bool) string {
	if !coloured || c == plain || text == "" {
		return text
	}
	return c.escape() + text + reset
}

func (c textStyle) escape() string { return "\x1b[" + string(c) + "m" }

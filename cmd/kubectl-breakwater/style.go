package main

import (
	"io"
	"os"
	"regexp"
	"unicode/utf8"

	"golang.org/x/term"
)

// style is a text style: the SGR sequence that begins it. The output never conveys information by color alone.
type style string

const (
	plain  style = ""
	strong style = "\x1b[1m"
	soft   style = "\x1b[2m"
	good   style = "\x1b[32m"
	warn   style = "\x1b[33m"
	bad    style = "\x1b[1;31m"
)

// reset ends a style.
const reset = "\x1b[0m"

// of returns a text in the style. A writer without color drops styles.
func (s style) of(text string) string {
	if s == plain || text == "" {
		return text
	}
	return string(s) + text + reset
}

// styles matches the sequences of all styles.
var styles = regexp.MustCompile("\x1b\\[[0-9;]+m")

// withoutStyles returns a text without the sequences of styles.
func withoutStyles(text string) string { return styles.ReplaceAllString(text, "") }

// columnsOf returns the number of columns that a line takes on a terminal.
func columnsOf(line string) int { return utf8.RuneCountInString(withoutStyles(line)) }

func colours() []string { return []string{"auto", "always", "never"} }

// coloured reports whether output to out is colored.
func (p *plugin) coloured(out io.Writer) bool {
	if p.colour != "auto" {
		return p.colour == "always"
	}
	return widthOf(out) > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// widthOf returns the width of a terminal, or 0 if out is not a terminal.
func widthOf(out io.Writer) int {
	file, ok := underneath(out).(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

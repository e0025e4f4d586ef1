package plugin

import (
	"io"
	"os"
	"regexp"
	"unicode/utf8"

	"golang.org/x/term"
)

// Style is a text style: the SGR sequence that begins it. The output never conveys information by color alone.
type Style string

// Styles, by what they say of a text.
const (
	Plain  Style = ""
	Strong Style = "\x1b[1m"
	Soft   Style = "\x1b[2m"
	Good   Style = "\x1b[32m"
	Warn   Style = "\x1b[33m"
	Bad    Style = "\x1b[1;31m"
)

// reset ends a style.
const reset = "\x1b[0m"

// Of returns a text in the style. A writer without color drops styles.
func (s Style) Of(text string) string {
	if s == Plain || text == "" {
		return text
	}
	return string(s) + text + reset
}

// styles matches the sequences of all styles.
var styles = regexp.MustCompile("\x1b\\[[0-9;]+m")

// WithoutStyles returns a text without the sequences of styles.
func WithoutStyles(text string) string { return styles.ReplaceAllString(text, "") }

// ColumnsOf returns the number of columns that a line takes on a terminal.
func ColumnsOf(line string) int { return utf8.RuneCountInString(WithoutStyles(line)) }

func colors() []string { return []string{"auto", "always", "never"} }

// Colored reports whether output to out is colored.
func (p *Plugin) Colored(out io.Writer) bool {
	if p.color != "auto" {
		return p.color == "always"
	}
	return WidthOf(out) > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// WidthOf returns the width of a terminal, or 0 if out is not a terminal.
func WidthOf(out io.Writer) int {
	file, ok := Underneath(out).(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

package main

import (
	"strings"
	"unicode/utf8"
)

// fitTerminal breaks lines that are wider than a terminal between words, and indents the rest. Lines with commands stay whole, so that they can be
// copied. A width of 0 changes nothing.
func fitTerminal(text string, width int) string {
	if width == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		indent := strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " "))+2)
		for !strings.Contains(line, "kubectl ") {
			at := lastBreak(line, width, len(indent))
			if at < 0 {
				break
			}
			b.WriteString(strings.TrimRight(line[:at], " ") + "\n")
			line = indent + strings.TrimLeft(line[at:], " ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// lastBreak returns the index of the last space after indent at which a line that is wider than width can be broken; -1 if it fits, or has none. Escape
// sequences have no width.
func lastBreak(line string, width, indent int) int {
	column, at := 0, -1
	for i := 0; i < len(line) && line[i] != '\n'; {
		if line[i] == '\x1b' {
			i += strings.IndexByte(line[i:], 'm') + 1
			continue
		}
		if column >= width {
			if line[i] == ' ' {
				at = max(at, i) // the word ends with the line
			}
			return at
		}
		if line[i] == ' ' && column >= indent {
			at = i
		}
		_, size := utf8.DecodeRuneInString(line[i:])
		i, column = i+size, column+1
	}
	return -1
}

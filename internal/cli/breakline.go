package cli

import (
	"strings"
	"unicode/utf8"
)

// BreakLine breaks a line that is wider than width between words. The lines after the first begin with indent spaces. It keeps spaces within lines;
// escape sequences have no width.
func BreakLine(line string, width, indent int) string {
	var b strings.Builder
	for {
		at := lastBreak(line, width, indent)
		if at < 0 {
			b.WriteString(line)
			return b.String()
		}
		b.WriteString(strings.TrimRight(line[:at], " ") + "\n")
		line = strings.Repeat(" ", indent) + strings.TrimLeft(line[at:], " ")
	}
}

// lastBreak returns the index of the last space after indent at which a line that is wider than width can be broken; -1 if it fits, or has none.
func lastBreak(line string, width, indent int) int {
	column, at := 0, -1
	for i := 0; i < len(line) && line[i] != '\n'; {
		if line[i] == '\x1b' {
			i += strings.IndexByte(line[i:], 'm') + 1
			continue
		}
		if line[i] == ' ' && column >= indent {
			at = i // or the word ends with the line
		}
		if column >= width {
			return at
		}
		_, size := utf8.DecodeRuneInString(line[i:])
		i, column = i+size, column+1
	}
	return -1
}

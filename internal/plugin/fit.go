package plugin

import (
	"strings"

	"github.com/breakwater-k8s/breakwater/internal/cli"
)

// textWidth is the width of texts without a terminal, and in a wider one.
const textWidth = 100

// softBreak ends the lines of a text that WrapText broke, so that fitTerminal can break it again.
const softBreak = "\v"

// FitTerminal breaks lines that are wider than a terminal between words, and indents the rest. Lines with commands stay whole, so that they can be
// copied. A width of 0 means that there is no terminal.
func FitTerminal(text string, width int) string {
	if width == 0 || width >= textWidth {
		text = strings.ReplaceAll(text, softBreak, "\n")
	}
	if width == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		lines := strings.Split(line, softBreak)
		indent := indentOf(line) + 2
		if len(lines) > 1 {
			indent = indentOf(lines[1])
		}
		for i := range lines[1:] {
			lines[i+1] = strings.TrimLeft(lines[i+1], " ")
		}
		if line = strings.Join(lines, " "); len(lines) > 1 || !strings.Contains(line, "kubectl ") {
			line = cli.BreakLine(line, width, indent)
		}
		b.WriteString(line)
	}
	return b.String()
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// IndentHanging formats a text with a hanging indent.
func IndentHanging(text string) string {
	return "  " + strings.TrimLeft(WrapText(text, "    "), " ")
}

// WrapText breaks a text into lines of at most textWidth characters, which end with softBreak. Each line begins with indent.
func WrapText(text, indent string) string {
	return indent + strings.Join(Wrap(text, textWidth-len(indent), 0), softBreak+indent)
}

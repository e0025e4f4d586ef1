package main

import (
	"strings"

	"github.com/breakwater-k8s/breakwater/internal/cli"
)

// fitTerminal breaks lines that are wider than a terminal between words, and indents the rest. Lines with commands stay whole, so that they can be
// copied. A width of 0 changes nothing.
func fitTerminal(text string, width int) string {
	if width == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "kubectl ") {
			line = cli.BreakLine(line, width, len(line)-len(strings.TrimLeft(line, " "))+2)
		}
		b.WriteString(line)
	}
	return b.String()
}

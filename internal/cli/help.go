package cli

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// helpWidth is the width of help, in columns of a terminal.
const helpWidth = 80

// fitHelpOf lets the help of a program fit a terminal. Descriptions in the code, and those of flags, have longer lines.
func fitHelpOf(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, arguments []string) {
		out := c.OutOrStdout()
		text := &bytes.Buffer{}
		c.SetOut(text)
		help(c, arguments)
		c.SetOut(out)
		_, _ = io.WriteString(out, fitHelp(text.String()))
	})
}

// listed matches what precedes the description of a flag or of a command in help.
var listed = regexp.MustCompile(`^ +(?:-\w, )?[\w-]+(?: [\w,./:=|-]+)? {2,}`)

// fitHelp fills the paragraphs that precede the usage, and wraps the lines below it. Examples stay as they are, so that they can be copied.
func fitHelp(help string) string {
	description, usage, hasUsage := strings.Cut("\n"+help, "\nUsage:\n")
	var b strings.Builder
	for i, paragraph := range strings.Split(strings.TrimSpace(description), "\n\n") {
		if i > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(fillParagraph(paragraph))
	}
	b.WriteString("\n")
	if !hasUsage {
		return b.String()
	}
	b.WriteString("\nUsage:\n")
	section := "Usage:"
	for line := range strings.Lines(usage) {
		text := strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasSuffix(text, ":") && !strings.HasPrefix(text, " "):
			section = text
		case section == "Usage:":
			text = BreakLine(text, helpWidth, 4)
		case section != "Examples:":
			text = BreakLine(text, helpWidth, len(listed.FindString(text)))
		}
		b.WriteString(text + strings.Repeat("\n", len(line)-len(strings.TrimSuffix(line, "\n"))))
	}
	return b.String()
}

// fillParagraph fills the lines of a paragraph. Lines that are indented are lists.
func fillParagraph(paragraph string) string {
	var lines []string
	for line := range strings.SplitSeq(paragraph, "\n") {
		last := len(lines) - 1
		if last >= 0 && !strings.HasPrefix(line, " ") && !strings.HasPrefix(lines[last], " ") {
			lines[last] += " " + line
		} else {
			lines = append(lines, line)
		}
	}
	for i, line := range lines {
		lines[i] = BreakLine(line, helpWidth, len(listed.FindString(line)))
	}
	return strings.Join(lines, "\n")
}

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

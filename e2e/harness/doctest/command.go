package doctest

import (
	"fmt"
	"regexp"
	"strings"
)

// Command is one command of a console block.
type Command struct {
	// Line is the line on the page, from 1.
	Line int
	// Text is the text after the prompt, including continuation lines.
	Text string
	// Output is the output that the page shows. Output that the page omits is not compared.
	Output string
}

const prompt = "$ "

// ParseCommands splits the content of a console block that begins at a line. A command continues on the next line where a shell
// would wait for more.
func ParseCommands(content string, line int) ([]Command, error) {
	var commands []Command
	for shown := range strings.Lines(content) {
		text := strings.TrimSuffix(shown, "\n")
		last := len(commands) - 1
		switch pending, found := strings.CutPrefix(text, prompt); {
		case last >= 0 && commands[last].Output == "" && isIncomplete(commands[last].Text):
			commands[last].Text += "\n" + text
		case found:
			commands = append(commands, Command{Line: line, Text: pending})
		case last < 0:
			return nil, fmt.Errorf("%d: a console block must begin with a command, after %q", line, prompt)
		default:
			commands[last].Output += shown
		}
		line++
	}
	if last := len(commands) - 1; last < 0 || isIncomplete(commands[last].Text) {
		return nil, fmt.Errorf("%d: the command is incomplete", line)
	}
	for i := range commands {
		commands[i].Output = strings.TrimRight(commands[i].Output, "\n")
	}
	return commands, nil
}

var hereDocument = regexp.MustCompile(`<<-?\s*['"]?(\w+)['"]?`)

// isIncomplete reports whether a shell would wait for more: after a backslash, a pipe or an operator, in quotes, and in a
// here-document.
func isIncomplete(command string) bool {
	if found := hereDocument.FindStringSubmatch(command); found != nil {
		return !strings.HasSuffix(command, "\n"+found[1])
	}
	open, after := scan(command)
	if open {
		return true
	}
	after = strings.TrimRight(after, " ")
	for _, operator := range []string{`\`, "|", "&&"} {
		if strings.HasSuffix(after, operator) {
			return true
		}
	}
	return false
}

// Simple returns the words of each simple command, that is, the commands between && and pipes. It omits quoted text, comments and
// here-documents.
func (c Command) Simple() (all [][]string) {
	_, bare := scan(c.Text)
	bare, _, _ = strings.Cut(bare, "<<")
	var words []string
	for _, word := range append(strings.Fields(bare), "&&") {
		switch word {
		case `\`: // the line continues
		case "&&", "|":
			if len(words) > 0 {
				all = append(all, words)
			}
			words = nil
		default:
			words = append(words, word)
		}
	}
	return all
}

// scan reports whether quotes are open at the end of a command, and returns the command without quoted text and comments.
func scan(command string) (open bool, bare string) {
	var out strings.Builder
	quote, escaped, inComment := rune(0), false, false
	previous := ' '
	for _, c := range command {
		switch {
		case inComment:
			inComment = c != '\n'
		case escaped:
			escaped = false
		case quote != 0:
			escaped = quote == '"' && c == '\\'
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '#' && (previous == ' ' || previous == '\n'):
			inComment = true
		default:
			escaped = c == '\\'
			out.WriteRune(c)
		}
		previous = c
	}
	return quote != 0, out.String()
}

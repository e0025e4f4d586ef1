package doctest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// Mention is a command in a sentence, a heading or a table.
type Mention struct {
	// Line is the line on the page, from 1.
	Line int
	Text string
}

// knownPrograms are the programs whose commands are recognized in sentences.
var knownPrograms = []string{"breakwater", "docker", "go", "helm", "kind", "kubectl", "make", "terraform", "tofu"} //nolint:gochecknoglobals // a constant

// isCommand reports whether a text in a sentence is a command: one of the programs with arguments.
func isCommand(text string) bool {
	program, rest, _ := strings.Cut(text, " ")
	return slices.Contains(knownPrograms, program) && strings.TrimSpace(rest) != ""
}

// Mentioned returns the command in a sentence of a page of the tree at root that begins with begins.
func Mentioned(root, path, begins string) (string, error) {
	page, err := Read(root, path)
	if err != nil {
		return "", err
	}
	for _, mention := range page.Mentions {
		if strings.HasPrefix(mention.Text, begins) {
			return mention.Text, nil
		}
	}
	return "", fmt.Errorf("no sentence of %s has a command that begins with %q", path, begins)
}

func (r *reader) visitCode(node *ast.CodeSpan) {
	var code strings.Builder
	line := 0
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		if text, ok := child.(*ast.Text); ok {
			code.Write(text.Segment.Value(r.source))
			if line == 0 {
				line = r.lineAt(text.Segment.Start)
			}
		}
	}
	if text := strings.Join(strings.Fields(code.String()), " "); isCommand(text) {
		r.page.Mentions = append(r.page.Mentions, Mention{Line: line, Text: text})
	}
}

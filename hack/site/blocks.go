package main

import (
	"html"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"

	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
)

// blocks renders code, fenced blocks and tables so that wide content wraps or can be scrolled by keyboard. In a console it
// distinguishes commands from their output.
type blocks struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (blocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, fence)
	r.Register(extast.KindTable, table)
	r.Register(ast.KindCodeSpan, code)
}

func fence(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkSkipChildren, nil
	}
	block := node.(*ast.FencedCodeBlock)
	language := string(block.Language(source))
	label := "Code"
	if language == "console" {
		label = "Commands"
	}
	_, _ = w.WriteString(`<div class="code"><pre tabindex="0" role="region" aria-label="` + label + `"><code class="` + html.EscapeString(language) + `">`)
	_, _ = w.WriteString(shown(language, string(block.Lines().Value(source)))) // the writer keeps its error
	_, err := w.WriteString("</code></pre></div>\n")
	return ast.WalkSkipChildren, err
}

// shown returns the content of a block as HTML.
func shown(language, content string) string {
	commands, err := doctest.ParseCommands(content, 1)
	if language != "console" || err != nil {
		return html.EscapeString(content)
	}
	var out strings.Builder
	for _, command := range commands {
		out.WriteString(`<span class="prompt">$ </span><b>` + html.EscapeString(command.Text) + "</b>\n")
		if command.Output != "" {
			out.WriteString(html.EscapeString(command.Output) + "\n")
		}
	}
	return out.String()
}

// code lets long words break at a dot or a slash.
func code(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkSkipChildren, nil
	}
	word := html.EscapeString(plain(node, source))
	if len(word) > 20 {
		word = strings.NewReplacer(".", "<wbr>.", "/", "/<wbr>").Replace(word)
	}
	_, err := w.WriteString("<code>" + word + "</code>")
	return ast.WalkSkipChildren, err
}

func table(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	tag := "</table></div>\n"
	if entering {
		tag = `<div class="table" tabindex="0" role="region" aria-label="Table"><table>` + "\n"
	}
	_, err := w.WriteString(tag)
	return ast.WalkContinue, err
}

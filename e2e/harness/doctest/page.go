// Package doctest reads the documentation and runs the commands of its console blocks. It compares their output with the output
// on the page. CONTRIBUTING.md describes how to write pages for it.
package doctest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// Page is the list of steps that a page of the documentation asks the reader, and so a test, to do.
type Page struct {
	// Path is relative to the root of the tree, with slashes.
	Path  string
	Steps []Step
	// Mentions are the commands in the page's sentences.
	Mentions []Mention
}

// Step is one action, in the order of the page. The fields that are set determine the kind of action.
type Step struct {
	// Line is the line on the page, from 1.
	Line int
	// File is the name of a file that the page shows, and Content its content.
	File, Content string
	// Hook is the name of a function of the test that runs the page.
	Hook string
	// Prepare is a script that the page hides from readers.
	Prepare string
	// Run holds the commands of a console block.
	Run *Block
}

// Block is a console block.
type Block struct {
	Directive
	Commands []Command
}

var (
	// fileName matches the first line of a fenced block that is a file.
	fileName = regexp.MustCompile(`\A(?:#|//) ([A-Za-z0-9][\w.-]*\.[a-z]+)\n`)
	comment  = regexp.MustCompile(`(?s)\A\s*<!--(.*?)-->\s*\z`)
)

// NotRun returns the commands of the console blocks that no test runs.
func (p Page) NotRun() (all []Command) {
	for _, step := range p.Steps {
		if step.Run != nil && step.Run.Environment == "" {
			all = append(all, step.Run.Commands...)
		}
	}
	return all
}

// Read reads a page of the tree at root. An error names the line of an invalid directive, or of a console block without one.
func Read(root, path string) (Page, error) {
	raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		return Page{}, err
	}
	return Parse(path, raw)
}

// Parse parses the source of a page.
func Parse(path string, source []byte) (Page, error) {
	r := &reader{page: Page{Path: path}, source: source}
	document := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	err := ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		return ast.WalkContinue, r.visit(node)
	})
	if err == nil {
		err = r.expectNothing()
	}
	return r.page, err
}

// reader collects the steps of a page.
type reader struct {
	page   Page
	source []byte
	// directive belongs to the console block that must come next, and line is its position.
	directive *Directive
	line      int
}

func (r *reader) visit(node ast.Node) error {
	if node.Type() == ast.TypeInline {
		if code, ok := node.(*ast.CodeSpan); ok {
			r.visitCode(code)
		}
		return nil
	}
	switch node := node.(type) {
	case *ast.HTMLBlock:
		return r.visitComment(node)
	case *ast.FencedCodeBlock:
		return r.visitFence(node)
	case *ast.Document, *ast.List, *ast.ListItem:
		return nil
	}
	return r.expectNothing()
}

// expectNothing returns an error for a directive that no console block follows.
func (r *reader) expectNothing() error {
	if r.directive != nil {
		return r.errorAt(r.line, "a directive must be immediately before a console block")
	}
	return nil
}

func (r *reader) visitComment(node *ast.HTMLBlock) error {
	found := comment.FindSubmatch(r.content(node, node.HasClosure(), node.ClosureLine))
	if found == nil {
		return r.expectNothing()
	}
	line := r.lineOf(node)
	content := strings.TrimSpace(string(found[1]))
	if name, ok := strings.CutPrefix(content, "do:"); ok {
		r.page.Steps = append(r.page.Steps, Step{Line: line, Hook: strings.TrimSpace(name)})
		return r.expectNothing()
	}
	if script, ok := strings.CutPrefix(content, "prepare:"); ok {
		r.page.Steps = append(r.page.Steps, Step{Line: line, Prepare: strings.TrimSpace(script)})
		return r.expectNothing()
	}
	if err := r.expectNothing(); err != nil {
		return err
	}
	directive, ok, err := parseDirective(content)
	if err != nil {
		return r.errorAt(line, err.Error())
	}
	if ok {
		r.directive, r.line = &directive, line
	}
	return nil
}

func (r *reader) visitFence(node *ast.FencedCodeBlock) error {
	content := string(r.content(node, false, text.Segment{}))
	line := r.lineOf(node)
	if string(node.Language(r.source)) != "console" {
		if found := fileName.FindStringSubmatch(content); found != nil {
			r.page.Steps = append(r.page.Steps, Step{Line: line, File: found[1], Content: content})
		}
		return r.expectNothing()
	}
	if r.directive == nil {
		return r.errorAt(line, "a console block needs a comment before it that says where a test runs it, or why it is not run: "+
			"<!-- run: ENVIRONMENT --> or <!-- not run: REASON -->")
	}
	commands, err := ParseCommands(content, line)
	if err != nil {
		return fmt.Errorf("%s:%w", r.page.Path, err)
	}
	r.page.Steps = append(r.page.Steps, Step{Line: line, Run: &Block{Directive: *r.directive, Commands: commands}})
	r.directive = nil
	return nil
}

// content returns the content of a block.
func (r *reader) content(node ast.Node, closed bool, closure text.Segment) []byte {
	var content []byte
	for i := range node.Lines().Len() {
		segment := node.Lines().At(i)
		content = append(content, segment.Value(r.source)...)
	}
	if closed {
		content = append(content, closure.Value(r.source)...)
	}
	return content
}

// lineOf returns the line of a block's first content.
func (r *reader) lineOf(node ast.Node) int {
	if node.Lines().Len() == 0 {
		return 0
	}
	return r.lineAt(node.Lines().At(0).Start)
}

// lineAt returns the line of an offset in the source.
func (r *reader) lineAt(offset int) int { return 1 + bytes.Count(r.source[:offset], []byte("\n")) }

func (r *reader) errorAt(line int, message string) error {
	return fmt.Errorf("%s:%d: %s", r.page.Path, line, message)
}

package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// foreign are names of Kubernetes and its tools that comments explain, and that no code of ours uses.
//
//nolint:gochecknoglobals // a constant in all but the language's sense
var foreign = []string{"macOS", "progressDeadlineSeconds", "terminationGracePeriod", "typeMeta"}

// names finds comments that explain what no longer exists: identifiers in camelCase that no code, chart or schema has, and Go files.
type names struct {
	known    map[string]bool // identifiers, and words of strings and of files other than Go
	files    map[string]bool // paths
	comments []comment
}

type comment struct {
	file string
	line int
	text string
}

var (
	word       = regexp.MustCompile(`[A-Za-z_]\w*`)
	identifier = regexp.MustCompile(`(?:^|[^\w./#-])([a-z]+[A-Z]\w*)`)
	goFile     = regexp.MustCompile(`(?:^|[^\w./-])((?:[\w-]+/)*[\w-]+\.go)\b`)
)

// add reads a file. Call it for all files before missing.
func (n *names) add(file string, raw []byte) {
	n.files[file] = true
	if path.Ext(file) != ".go" {
		if path.Ext(file) != ".md" { // pages may be as old as comments
			n.addWords(string(raw))
		}
		return
	}
	files := token.NewFileSet()
	source := files.AddFile(file, -1, len(raw))
	var s scanner.Scanner
	s.Init(source, raw, nil, scanner.ScanComments)
	for {
		pos, kind, text := s.Scan()
		switch kind {
		case token.EOF:
			return
		case token.COMMENT:
			n.comments = append(n.comments, comment{file, files.Position(pos).Line, text})
		case token.IDENT, token.STRING:
			n.addWords(text)
		default:
		}
	}
}

func (n *names) addWords(text string) {
	for _, w := range word.FindAllString(text, -1) {
		n.known[w] = true
	}
}

// hasFile reports whether a file of the tree has a path, or the end of one.
func (n *names) hasFile(name string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(n.files)), func(file string) bool { return file == name || strings.HasSuffix(file, "/"+name) })
}

// missing returns a line for each name in a comment that does not exist.
func (n *names) missing() (lines []string) {
	for _, c := range n.comments {
		if strings.HasPrefix(c.text, "// +") || strings.HasPrefix(c.text, "//nolint") || strings.HasPrefix(c.text, "//go:") { // markers of tools
			continue
		}
		report := func(name, what string) {
			lines = append(lines, fmt.Sprintf("%s:%d: %q: no %s has this name", c.file, c.line, name, what))
		}
		for _, found := range identifier.FindAllStringSubmatch(c.text, -1) {
			if name := found[1]; !n.known[name] && !n.known[strings.TrimSuffix(name, "s")] && !slices.Contains(foreign, strings.TrimSuffix(name, "s")) &&
				!slices.Contains(foreign, name) {
				report(name, "code")
			}
		}
		for _, found := range goFile.FindAllStringSubmatch(c.text, -1) {
			if name := found[1]; !n.files[path.Join(path.Dir(c.file), name)] && (!strings.Contains(name, "/") || !n.hasFile(name)) {
				report(name, "file")
			}
		}
	}
	return lines
}

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// foreign are names of Kubernetes and its tools that comments explain, and that no code of ours uses.
//
//nolint:gochecknoglobals // a constant in all but the language's sense
var foreign = []string{"macOS", "progressDeadlineSeconds", "terminationGracePeriod", "typeMeta"}

// names finds comments that explain what no longer exists: identifiers in camelCase that no code, chart or schema has, Go files, and the former
// name of a function or a type.
type names struct {
	known    map[string]bool // identifiers, and words of strings and of files other than Go
	files    map[string]bool // paths
	comments []comment
	former   []string // lines of formerNames
}

type comment struct {
	file string
	line int
	text string
}

var (
	word       = regexp.MustCompile(`[A-Za-z_]\w*`)
	identifier = regexp.MustCompile(`(?:^|[^\w./#-])([a-z]+[A-Z]\w*)`)
	camelCase  = regexp.MustCompile(`^[a-z]+[A-Z]\w*$`)
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
	n.former = append(n.former, formerNames(file, raw)...)
	scan(file, raw, func(kind token.Token, line int, text string) {
		switch kind {
		case token.COMMENT:
			n.comments = append(n.comments, comment{file, line, text})
		case token.IDENT, token.STRING:
			n.addWords(text)
		default:
		}
	})
}

// formerNames returns a line for each function and type of a Go file whose docstring begins with the name of another one.
func formerNames(file string, raw []byte) (lines []string) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, raw, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil // the compiler reports it
	}
	check := func(doc *ast.CommentGroup, name string) {
		first, _, _ := strings.Cut(doc.Text(), " ")
		if first != name && (strings.EqualFold(first, name) || camelCase.MatchString(first)) {
			lines = append(lines, fmt.Sprintf("%s:%d: the docstring of %s explains %q", file, files.Position(doc.Pos()).Line, name, first))
		}
	}
	for _, declaration := range parsed.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			check(d.Doc, d.Name.Name)
		case *ast.GenDecl:
			if d.Tok == token.TYPE && len(d.Specs) == 1 {
				check(d.Doc, d.Specs[0].(*ast.TypeSpec).Name.Name)
			}
		}
	}
	return lines
}

func (n *names) addWords(text string) {
	for _, w := range word.FindAllString(text, -1) {
		n.known[w] = true
	}
}

// hasFile reports whether a file of the tree has a path, or the end of one.
func (n *names) hasFile(name string) bool {
	for file := range n.files {
		if file == name || strings.HasSuffix(file, "/"+name) {
			return true
		}
	}
	return false
}

// missing returns a line for each name in a comment that does not exist, or that is not what its docstring explains.
func (n *names) missing() (lines []string) {
	lines = slices.Clone(n.former)
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

package main

import (
	"bytes"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// page is one page of the site.
type page struct {
	// Path is its path in the tree, and URL its path in the site. Both have slashes.
	Path, URL string
	Title     string
	Headings  []heading
	Body      []byte
	// links and images are the targets as written on the page.
	links, images []string
	// anchors are the ids that links may refer to.
	anchors map[string]bool
	// sections are the entries of the search.
	sections []section
}

// heading is a heading of level 2 or 3.
type heading struct {
	Level    int
	ID, Text string
}

// section is the text below a heading.
type section struct {
	ID, Title, Text string
}

// address returns the address of a page of the tree in the site. README.md of the root is the first page. docs/ is the root, so that other files
// of the tree's root have a prefix: SECURITY.md is not docs/concepts/security.md.
func address(name string) string {
	if name == "README.md" {
		return "index.html"
	}
	name = strings.ToLower(strings.TrimSuffix(name, ".md"))
	if !strings.Contains(name, "/") {
		return "project-" + name + ".html"
	}
	return strings.TrimPrefix(name, "docs/") + ".html"
}

var frontMatter = regexp.MustCompile(`(?s)\A---\n.*?\n---\n`)

// linkResolver converts links of the tree to links of the site.
type linkResolver interface {
	// target returns the link in the site.
	target(from, link string) string
	// name returns the text for a link whose text is the name of its file.
	name(from, link, called string) string
}

// parsePage renders a page. The signpost converts its links from the tree to the site.
func parsePage(tree fs.FS, name string, to linkResolver) (*page, error) {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	source = frontMatter.ReplaceAll(source, nil)
	p := &page{Path: name, URL: address(name), anchors: map[string]bool{}}
	markdown := goldmark.New(
		goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(html.WithUnsafe(), renderer.WithNodeRenderers(util.Prioritized(blocks{}, 100))),
	)
	document := markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(&slugs{}))))
	p.collect(document, source, to)
	switch {
	case p.Title == "":
		p.Title = strings.TrimSuffix(path.Base(name), ".md")
	case strings.HasPrefix(name, "charts/"):
		p.Title = "Chart " + p.Title
	}
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, source, document); err != nil {
		return nil, err
	}
	p.Body = out.Bytes()
	for _, found := range regexp.MustCompile(` (?:id|name)="([^"]+)"`).FindAllSubmatch(p.Body, -1) {
		p.anchors[string(found[1])] = true
	}
	return p, nil
}

// collect records the contents of the page, converts its links, and removes comments.
func (p *page) collect(document ast.Node, source []byte, to linkResolver) {
	var comments []ast.Node
	current := section{}
	_ = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) { // it returns no errors
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Heading:
			current = p.begin(node, source, current)
			return ast.WalkSkipChildren, nil
		case *ast.Link:
			link := string(node.Destination)
			p.links = append(p.links, link)
			if called := plain(node, source); called != "" && to.name(p.Path, link, called) != called {
				node.RemoveChildren(node)
				node.AppendChild(node, ast.NewString([]byte(to.name(p.Path, link, called))))
			}
			node.Destination = []byte(to.target(p.Path, link))
		case *ast.Image:
			p.images = append(p.images, string(node.Destination))
		case *ast.HTMLBlock:
			if bytes.HasPrefix(bytes.TrimSpace(node.Lines().Value(source)), []byte("<!--")) {
				comments = append(comments, node)
			}
		case *ast.Text:
			current.Text += string(node.Value(source)) + " "
		case *ast.FencedCodeBlock:
			current.Text += string(node.Lines().Value(source)) + " "
		}
		return ast.WalkContinue, nil
	})
	p.end(current)
	for _, node := range comments {
		node.Parent().RemoveChild(node.Parent(), node)
	}
}

// begin ends a section and returns the section that a heading begins.
func (p *page) begin(node *ast.Heading, source []byte, current section) section {
	p.end(current)
	id := ""
	if raw, ok := node.AttributeString("id"); ok {
		id = string(raw.([]byte))
	}
	title := plain(node, source)
	switch {
	case node.Level == 1 && p.Title == "":
		p.Title = title
	case node.Level == 2 || node.Level == 3:
		p.Headings = append(p.Headings, heading{Level: node.Level, ID: id, Text: title})
	}
	return section{ID: id, Title: title}
}

func (p *page) end(s section) {
	s.Text = strings.Join(strings.Fields(s.Text), " ")
	if s.Text != "" || s.Title != "" {
		p.sections = append(p.sections, s)
	}
}

// plain returns the text of a node without its markup.
func plain(node ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(node, func(node ast.Node, entering bool) (ast.WalkStatus, error) { // it returns no errors
		if text, ok := node.(*ast.Text); ok && entering {
			out.Write(text.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// slugs gives headings the same ids as GitHub.
type slugs struct{ used map[string]int }

// Generate implements parser.IDs.
func (s *slugs) Generate(value []byte, _ ast.NodeKind) []byte {
	var out strings.Builder
	for _, c := range strings.ToLower(string(value)) {
		switch {
		case unicode.IsLetter(c), unicode.IsDigit(c), c == '-', c == '_':
			out.WriteRune(c)
		case c == ' ':
			out.WriteRune('-')
		}
	}
	slug := out.String()
	if s.used == nil {
		s.used = map[string]int{}
	}
	n, taken := s.used[slug]
	s.used[slug] = n + 1
	if taken {
		slug += "-" + strconv.Itoa(n)
	}
	return []byte(slug)
}

// Put implements parser.IDs.
func (s *slugs) Put(value []byte) { s.used[string(value)]++ }

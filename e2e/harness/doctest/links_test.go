package doctest_test

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

var (
	frontMatter = regexp.MustCompile(`(?s)\A---\n.*?\n---\n`)
	htmlAnchor  = regexp.MustCompile(`<[^>]+ (?:id|name)="([^"]+)"`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}\p{M}_ -]`)
)

// linkChecker checks the links of pages. It keeps the anchors of pages that it has read.
type linkChecker struct {
	tree fs.FS
	// anchors are those of the pages that were read.
	anchors map[string]map[string]bool
}

// anchorsOf returns the anchors of a page.
func (c *linkChecker) anchorsOf(page string) map[string]bool {
	if c.anchors[page] == nil {
		_, c.anchors[page] = readLinks(c.tree, page)
	}
	return c.anchors[page]
}

// readLinks returns the targets of a page's links and images, and its anchors by the rules of GitHub.
func readLinks(tree fs.FS, page string) (links []string, anchors map[string]bool) {
	source, _ := fs.ReadFile(tree, page) // a deleted page has no links
	source = frontMatter.ReplaceAll(source, nil)
	anchors, used := map[string]bool{}, map[string]int{}
	for _, found := range htmlAnchor.FindAllSubmatch(source, -1) {
		anchors[string(found[1])] = true
	}
	document := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	_ = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) { // it returns no errors
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Link:
			links = append(links, string(node.Destination))
		case *ast.Image:
			links = append(links, string(node.Destination))
		case *ast.Heading:
			title := strings.ToLower(string(node.Text(source))) //nolint:staticcheck // deprecated, but it returns the text without markup, as GitHub uses it
			slug := strings.ReplaceAll(notInAnchor.ReplaceAllString(title, ""), " ", "-")
			if used[slug]++; used[slug] > 1 {
				slug = fmt.Sprintf("%s-%d", slug, used[slug]-1)
			}
			anchors[slug] = true
		}
		return ast.WalkContinue, nil
	})
	return links, anchors
}

// brokenLinks returns the relative links of a page that lead to no file or to no heading.
func (c *linkChecker) brokenLinks(page string) (broken []string) {
	var links []string
	links, c.anchors[page] = readLinks(c.tree, page)
	for _, link := range links {
		u, err := url.Parse(link)
		if err == nil && (u.Scheme != "" || u.Host != "") {
			continue
		}
		target := page
		if err == nil && u.Path != "" {
			target = path.Join(path.Dir(page), u.Path)
		}
		if _, missing := fs.Stat(c.tree, target); err != nil || missing != nil {
			broken = append(broken, link+": no such file")
		} else if u.Fragment != "" && path.Ext(target) == ".md" && !c.anchorsOf(target)[u.Fragment] {
			broken = append(broken, link+": no such heading")
		}
	}
	return broken
}

func TestLinksOfPages(t *testing.T) {
	tracked, err := exec.Command("git", "-C", root, "ls-files", "*.md").Output()
	if err != nil || len(tracked) == 0 {
		t.Fatalf("git ls-files returned %d bytes and %v", len(tracked), err)
	}
	checker := &linkChecker{os.DirFS(root), map[string]map[string]bool{}}
	for page := range strings.FieldsSeq(string(tracked)) {
		for _, link := range checker.brokenLinks(page) {
			t.Errorf("%s: %s", page, link)
		}
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	for claim, c := range map[string]struct{ page, want string }{
		"accepts files, folders and other sites": {"[1](../LICENSE) [2](../docs) [3](https://example.com/x.md#y) [4](b.md)", ""},
		"accepts headings and HTML anchors":      {"# A\n[1](#a) [2](b.md#it-is-so-yes) [3](b.md#it-is-so-yes-1) [4](b.md#here)", ""},
		"ignores links in code":                  {"`[x](other.md)`", ""},
		"rejects a page that does not exist":     {"[x](other.md)", "other.md: no such file"},
		"rejects a picture that does not exist":  {"![x](images/x.svg)", "images/x.svg: no such file"},
		"rejects a file outside of the tree":     {"[x](../../LICENSE)", "../../LICENSE: no such file"},
		"rejects a heading that does not exist":  {"[x](b.md#front-matter)", "b.md#front-matter: no such heading"},
		"rejects a heading of another page":      {"[x](#b)", "#b: no such heading"},
		"rejects one heading too many":           {"[x](b.md#it-is-so-yes-2)", "b.md#it-is-so-yes-2: no such heading"},
	} {
		t.Run(claim, func(t *testing.T) {
			other := "---\n# front matter\n---\n# B\n## It *is* `so`, yes\n## It is so yes\n<a id=\"here\"></a>\n"
			tree := fstest.MapFS{"docs/a.md": {Data: []byte(c.page)}, "docs/b.md": {Data: []byte(other)}, "LICENSE": {}}
			checker := &linkChecker{tree, map[string]map[string]bool{}}
			if got := strings.Join(checker.brokenLinks("docs/a.md"), "\n"); got != c.want {
				t.Errorf("brokenLinks() of %q = %q, want %q", c.page, got, c.want)
			}
		})
	}
}

package main

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// Builds the documentation of this tree. A successful build means that every page is in the navigation, and that no link, anchor
// or picture is broken.
func TestSiteOfThisTreeBuilds(t *testing.T) {
	tree := os.DirFS("../..")
	groups, err := readNavigation(tree)
	if err != nil {
		t.Fatal(err)
	}
	files, err := (&site{tree: tree, groups: groups}).build()
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for name, content := range files {
		if path.Ext(name) != ".html" {
			continue
		}
		for _, found := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllSubmatch(content, -1) {
			link := string(found[1])
			if strings.HasPrefix(link, "https://") || strings.HasPrefix(link, "http://") {
				continue
			}
			links++
			to, anchor, _ := strings.Cut(link, "#")
			target := name
			if to != "" {
				target = path.Join(path.Dir(name), to)
			}
			if _, ok := files[target]; !ok || strings.HasPrefix(to, "/") {
				t.Errorf("%s: link %s has no target in the site", name, link)
			}
			if anchor != "" && !strings.Contains(string(files[target]), ` id="`+anchor+`"`) && !strings.Contains(string(files[target]), ` name="`+anchor+`"`) {
				t.Errorf("%s: link %s has no such anchor", name, link)
			}
		}
		for _, forbidden := range []string{"<!--", "](", "@import", "url(", "ZgotmplZ"} {
			if shown := regexp.MustCompile(`(?s)<(code|pre)[ >].*?</(code|pre)>`).ReplaceAll(content, nil); strings.Contains(string(shown), forbidden) {
				t.Errorf("%s contains %q", name, forbidden)
			}
		}
	}
	t.Logf("%d files, %d links", len(files), links)
	if links < 1000 {
		t.Errorf("%d links", links)
	}
}

func mapOf(files map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, content := range files {
		tree[name] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(content, "~", "```"))}
	}
	return tree
}

func TestBrokenLinkIsAnError(t *testing.T) {
	for claim, c := range map[string]struct{ page, want string }{
		"a page that does not exist":    {"[x](other.md)", "docs/a.md: other.md: no such file"},
		"a heading that does not exist": {"[x](b.md#nothing)", "docs/a.md: b.md#nothing: no such heading"},
		"a heading of the page itself":  {"[x](#nothing)", "#nothing: no such heading"},
		"a file that does not exist":    {"[x](../LICENCE)", "no such file"},
		"a picture that does not exist": {"![x](images/x.svg)", "docs/a.md: picture: open docs/images/x.svg"},
	} {
		t.Run(claim, func(t *testing.T) {
			tree := mapOf(map[string]string{"docs/a.md": c.page, "docs/b.md": "# B\n## Some heading"})
			_, err := (&site{tree: tree, groups: []group{{Pages: []string{"docs/a.md", "docs/b.md"}}}}).build()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestLinksToPagesAreConverted(t *testing.T) {
	tree := mapOf(map[string]string{
		"README.md": "# Top\n[1](docs/a.md#it-is-so-yes) [2](LICENSE) [3](https://example.com/x.md)", "LICENSE": "",
		"docs/a.md":   "# A\n<!-- run: shell -->\n~console\n$ a <b> \\\n  c\nout\n~\n## It *is* `so`, yes\n## It is so yes\n[4](../README.md) [r/b.md](r/b.md#b) [5](r/b.md#b) [6](#it-is-so-yes-1) ![p](i/p.svg)",
		"docs/r/b.md": "---\nfront: matter\n---\n# B\n[7](../a.md)", "docs/i/p.svg": "<svg/>",
	})
	files, err := (&site{tree: tree, groups: []group{{Title: "G", Pages: []string{"README.md", "docs/a.md", "docs/r/b.md"}}}}).build()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"index.html": {`href="a.html#it-is-so-yes">1`, `href="https://github.com/breakwater-k8s/breakwater/blob/main/LICENSE">2`, `href="https://example.com/x.md">3`, `rel="next" href="a.html"`, `href="r/b.html"`},
		"a.html": {`href="index.html">4`, `href="r/b.html#b">B<`, `href="r/b.html#b">5`, `href="#it-is-so-yes-1">6`, `src="i/p.svg"`, `id="it-is-so-yes-1"`,
			"<span class=\"prompt\">$ </span><b>a &lt;b&gt; \\\n  c</b>\nout\n", `aria-current="page">A<`},
		"r/b.html": {`href="../a.html">7`, `href="../site.css"`, `data-root="../"`},
		"i/p.svg":  {"<svg/>"},
		"index.js": {`"URL":"a.html#it-is-so-yes"`},
	} {
		for _, word := range want {
			if !strings.Contains(string(files[name]), word) {
				t.Errorf("%s does not have %s:\n%s", name, word, files[name])
			}
		}
	}
	for _, hidden := range []string{"run: shell", "front: matter"} {
		if strings.Contains(string(files["a.html"])+string(files["r/b.html"]), hidden) {
			t.Errorf("%q is shown", hidden)
		}
	}
}

func TestEveryPageIsInOneGroup(t *testing.T) {
	groups := []group{{Title: "A", Pages: []string{"a.md"}}, {Title: "B", Pages: []string{"*.md"}}, {Title: "C", Pages: []string{"c/*.md"}}}
	got, err := arrange(groups, []string{"a.md", "b.md"})
	if diff := cmp.Diff([]group{{Title: "A", Pages: []string{"a.md"}}, {Title: "B", Pages: []string{"b.md"}}}, got); diff != "" || err != nil {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
	for claim, c := range map[string]struct {
		all  []string
		want string
	}{
		"a page in no group":                  {[]string{"a.md", "d/e.md"}, "d/e.md is in no group"},
		"a page that does not exist any more": {[]string{"b.md"}, "a.md does not exist"},
	} {
		if _, err := arrange(groups, c.all); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", claim, err)
		}
	}
	if _, err := arrange(slices.Concat(groups, groups), []string{"a.md"}); err == nil || !strings.Contains(err.Error(), "named twice") {
		t.Errorf("got %v", err)
	}
}

func TestAlertTitlesAreShortInTheNavigation(t *testing.T) {
	for title, want := range map[string]string{
		"BreakwaterCoreDown": "CoreDown", "Breakwater": "Breakwater", "Breakwater on kind clusters": "Breakwater on kind clusters", "The demo": "The demo",
	} {
		if got := short(title); got != want {
			t.Errorf("%q is %q, want %q", title, got, want)
		}
	}
}

package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"
)

// repository is the URL prefix of files that are not pages.
const repository = "https://github.com/breakwater-k8s/breakwater/blob/main/"

var (
	//go:embed page.html
	layout string
	//go:embed site.css
	style []byte
	//go:embed search.js
	script []byte
)

// site is the documentation of a tree.
type site struct {
	tree   fs.FS
	groups []group
	pages  []*page
	byPath map[string]*page
}

// build returns all files of the site by name. The error lists all broken links.
func (s *site) build() (map[string][]byte, error) {
	s.byPath = map[string]*page{}
	for _, g := range s.groups {
		for _, name := range g.Pages {
			p, err := parsePage(s.tree, name, s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			s.pages, s.byPath[name] = append(s.pages, p), p
		}
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	index, err := s.index()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"site.css": style, "search.js": script, "index.js": index}
	for i, p := range s.pages {
		if files[p.URL], err = s.render(i); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Path, err)
		}
		for _, image := range p.images {
			from := path.Join(path.Dir(p.Path), image)
			content, err := fs.ReadFile(s.tree, from)
			if err != nil {
				return nil, fmt.Errorf("%s: picture: %w", p.Path, err)
			}
			files[path.Join(path.Dir(p.URL), image)] = content
		}
	}
	return files, nil
}

// target returns the link in the site for a link of a page in the tree: another page, or a file in the repository.
func (s *site) target(from, link string) string {
	name, anchor, ok := inTree(from, link)
	switch {
	case !ok || name == from:
		return link
	case path.Ext(name) == ".md":
		return relative(address(from), address(name)) + anchor
	}
	return repository + name + anchor
}

var firstHeading = regexp.MustCompile(`(?m)^# (.+)$`)

// name returns the title of the linked page, if the link's text is the file name of that page.
func (s *site) name(from, link, called string) string {
	file, _, ok := inTree(from, link)
	if !ok || path.Ext(called) != ".md" || path.Base(called) != path.Base(file) {
		return called
	}
	source, err := fs.ReadFile(s.tree, file)
	if err != nil {
		return called // check reports the error
	}
	if found := firstHeading.FindSubmatch(source); found != nil && path.Base(file) != "README.md" {
		return string(found[1])
	}
	return called
}

// inTree returns the file of the tree that a link refers to, and its anchor with the #. It returns false for links that leave the
// tree.
func inTree(from, link string) (name, anchor string, ok bool) {
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return "", "", false
	}
	if u.Fragment != "" {
		anchor = "#" + u.Fragment
	}
	if u.Path == "" {
		return from, anchor, true
	}
	return path.Join(path.Dir(from), u.Path), anchor, true
}

// relative returns the relative link from one page of the site to another.
func relative(from, to string) string { return strings.Repeat("../", strings.Count(from, "/")) + to }

// check verifies all links.
func (s *site) check() error {
	var wrong []error
	for _, p := range s.pages {
		for _, link := range p.links {
			if complaint := s.follow(p, link); complaint != "" {
				wrong = append(wrong, fmt.Errorf("%s: %s: %s", p.Path, link, complaint))
			}
		}
	}
	return errors.Join(wrong...)
}

func (s *site) follow(p *page, link string) string {
	name, anchor, ok := inTree(p.Path, link)
	if !ok {
		return ""
	}
	if target, isPage := s.byPath[name]; isPage {
		if anchor != "" && !target.anchors[anchor[1:]] {
			return "no such heading"
		}
		return ""
	}
	if _, err := fs.Stat(s.tree, name); err != nil {
		return "no such file"
	}
	return ""
}

// view is the data of the template.
type view struct {
	*page
	Root   string
	Body   template.HTML
	Groups []viewGroup
	// Group is the title of the page's group.
	Group          string
	Previous, Next *viewLink
}

type viewGroup struct {
	Title string
	Open  bool
	Links []viewLink
}

type viewLink struct {
	Title, URL string
	Current    bool
}

// render renders the page at an index of the navigation order.
func (s *site) render(at int) ([]byte, error) {
	p := s.pages[at]
	v := view{page: p, Root: strings.Repeat("../", strings.Count(p.URL, "/")), Body: template.HTML(p.Body)} //nolint:gosec // our own pages
	for _, g := range s.groups {
		shown := viewGroup{Title: g.Title, Open: !g.Fold}
		for _, name := range g.Pages {
			link := s.link(p, s.byPath[name])
			if link.Current {
				shown.Open, v.Group = true, g.Title
			}
			shown.Links = append(shown.Links, link)
		}
		v.Groups = append(v.Groups, shown)
	}
	if at > 0 {
		link := s.link(p, s.pages[at-1])
		v.Previous = &link
	}
	if at < len(s.pages)-1 {
		link := s.link(p, s.pages[at+1])
		v.Next = &link
	}
	parsed, err := template.New("page").Parse(layout)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, v)
	return out.Bytes(), err
}

func (s *site) link(from, to *page) viewLink {
	return viewLink{Title: short(to.Title), URL: relative(from.URL, to.URL), Current: from == to}
}

// short returns a title without the common prefix of all alert names, which would be too long for the navigation.
func short(title string) string {
	if rest, found := strings.CutPrefix(title, "Breakwater"); found && rest != "" && unicode.IsUpper(rune(rest[0])) {
		return rest
	}
	return title
}

// index returns the search index as a script, because a page that was opened as a file can load no other file type.
func (s *site) index() ([]byte, error) {
	type entry struct {
		Page, URL, Title, Text string
	}
	var entries []entry
	for _, p := range s.pages {
		for _, section := range p.sections {
			at := p.URL
			if section.ID != "" {
				at += "#" + section.ID
			}
			entries = append(entries, entry{p.Title, at, section.Title, section.Text})
		}
	}
	raw, err := json.Marshal(entries)
	if err != nil {
		return nil, err
	}
	return append(append([]byte("window.breakwaterIndex = "), raw...), ";\n"...), nil
}

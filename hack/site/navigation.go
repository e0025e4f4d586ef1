package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed navigation.yaml
var navigation []byte

// group is a group of the navigation.
type group struct {
	Title string `yaml:"title"`
	// Fold collapses the group, unless it contains the current page.
	Fold  bool     `yaml:"fold"`
	Pages []string `yaml:"pages"`
}

// readNavigation returns the groups, with patterns replaced by the paths of pages. It returns an error for a page in no group,
// and for a named page that does not exist.
func readNavigation(tree fs.FS) ([]group, error) {
	var groups []group
	if err := yaml.Unmarshal(navigation, &groups); err != nil {
		return nil, fmt.Errorf("navigation.yaml: %w", err)
	}
	all, err := markdown(tree)
	if err != nil {
		return nil, err
	}
	return arrange(groups, all)
}

// arrange adds each page to the group that names it, or else to the first one with a matching pattern.
func arrange(groups []group, all []string) ([]group, error) {
	var wrong []error
	named := map[string]bool{}
	for _, g := range groups {
		for _, name := range g.Pages {
			if isPattern(name) {
				continue
			}
			if named[name] {
				wrong = append(wrong, fmt.Errorf("navigation: %s is named twice", name))
			}
			named[name] = true
			if !slices.Contains(all, name) {
				wrong = append(wrong, fmt.Errorf("navigation: %s does not exist", name))
			}
		}
	}
	arranged := make([]group, len(groups))
	for i, g := range groups {
		arranged[i] = group{Title: g.Title, Fold: g.Fold}
		for _, name := range g.Pages {
			matching := []string{name}
			if isPattern(name) {
				matching = slices.DeleteFunc(slices.Clone(all), func(page string) bool {
					found, err := path.Match(name, page)
					return err != nil || !found || named[page]
				})
			}
			for _, page := range matching {
				named[page] = true
			}
			arranged[i].Pages = append(arranged[i].Pages, matching...)
		}
	}
	for _, page := range all {
		if !named[page] {
			wrong = append(wrong, fmt.Errorf("navigation: %s is in no group of hack/site/navigation.yaml", page))
		}
	}
	return slices.DeleteFunc(arranged, func(g group) bool { return len(g.Pages) == 0 }), errors.Join(wrong...)
}

func isPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// markdown returns the paths of the pages of the tree.
func markdown(tree fs.FS) (all []string, err error) {
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if entry.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "site" || base == "templates") {
			return fs.SkipDir
		}
		if path.Ext(name) == ".md" {
			all = append(all, name)
		}
		return nil
	})
	return all, err
}

// Command site builds the documentation as a site of plain files that need no server and no network, and no script except for the
// search. It fails if a page is in no group of the navigation, or if a link, an anchor or a picture is broken.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "`directory` of the repository")
	out := flag.String("out", "site", "`directory` of the site, which is replaced")
	flag.Parse()
	if err := run(*root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// run builds the site of the tree at root.
func run(root, out string) error {
	tree := os.DirFS(root)
	groups, err := readNavigation(tree)
	if err != nil {
		return err
	}
	s := &site{tree: tree, groups: groups}
	files, err := s.build()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

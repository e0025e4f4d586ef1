package doctest

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// All reads all pages of the tree at root, sorted by path: its Markdown files, except in testdata, in node_modules, in build output and in
// directories whose names begin with a dot. The error joins the errors of all pages.
func All(root string) ([]Page, error) {
	var all []Page
	var errs []error
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := path.Base(name); name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "site" || base == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		page, err := Read(root, filepath.ToSlash(name))
		all, errs = append(all, page), append(errs, err)
		return nil
	})
	return all, errors.Join(append(errs, err)...)
}

package doctest

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// All reads all pages of the tree at root, in the order of their paths: the Markdown of it, without what begins with a dot, testdata, and what
// is built. The error holds what is wrong with any of them.
func All(root string) ([]Page, error) {
	var all []Page
	var wrong []error
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := path.Base(name); name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "site") {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		page, err := Read(root, filepath.ToSlash(name))
		all, wrong = append(all, page), append(wrong, err)
		return nil
	})
	return all, errors.Join(append(wrong, err)...)
}

package pages_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/pages"
)

// What pages show of make takes minutes, so that only make docs-all runs it. It works in this tree.
func TestWhatPagesShowOfTheTreeIsSo(t *testing.T) {
	if os.Getenv("DOCS_ALL") == "" {
		t.Skip("it takes minutes: run it by make docs-all")
	}
	folder, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pages.All(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range all {
		if page.Runs(pages.Tree) {
			t.Run(page.Path, func(t *testing.T) {
				page.Run(t, pages.Setting{Environments: []pages.Environment{pages.Tree}, Folder: folder, Patience: 15 * time.Minute})
			})
		}
	}
}

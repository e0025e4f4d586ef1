package doctest_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
)

// The commands of make on the pages take minutes, so only make docs-all runs them. They work in this tree.
func TestWhatPagesShowOfTheTreeIsSo(t *testing.T) {
	if os.Getenv("DOCS_ALL") == "" {
		t.Skip("takes minutes: run this test with make docs-all")
	}
	folder, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	all, err := doctest.All(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range all {
		if page.Runs(doctest.Tree) {
			t.Run(page.Path, func(t *testing.T) {
				page.Run(t, doctest.Options{Environments: []doctest.Environment{doctest.Tree}, Folder: folder, Timeout: 15 * time.Minute})
			})
		}
	}
}

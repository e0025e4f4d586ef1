package doctest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
)

// A statement that a page says a test proves is worth nothing when the test was renamed or deleted.
func TestTestsThatPagesNameExist(t *testing.T) {
	written := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w*)\(`)
	exists := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, found := range written.FindAllSubmatch(raw, -1) {
			exists[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := doctest.All(root)
	if err != nil {
		t.Fatal(err)
	}
	named, number := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`"), 0
	for _, page := range all {
		raw, err := os.ReadFile(filepath.Join(root, page.Path))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range named.FindAllSubmatch(raw, -1) {
			if number++; !exists[string(found[1])] {
				t.Errorf("%s names %s, which does not exist", page.Path, found[1])
			}
		}
	}
	if number < 20 {
		t.Errorf("found %d tests in pages, want those of docs/security.md at least", number)
	}
}

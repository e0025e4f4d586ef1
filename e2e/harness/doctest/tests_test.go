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

// If a page refers to a test as proof, the reference is worthless once the test was renamed or deleted.
func TestTestsNamedInDocsExist(t *testing.T) {
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
		t.Errorf("found %d test names in the docs, want at least those of docs/concepts/security.md", number)
	}
}

// The table of rules leads a reader to the code, so it must follow renames.
func TestFunctionsNamedInTheRulesTableExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/concepts/safety.md"))
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^func (?:\(\w+ \*?(\w+)\) )?(\w+)`)
	exists := map[string]bool{}
	for _, pattern := range []string{"aggregator", "aggregator/*", "webhook", "webhook/*", "controllers/*", "internal/clusters", "internal/core/*"} {
		files, err := filepath.Glob(filepath.Join(root, pattern, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no Go files in %s: %v", pattern, err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range declared.FindAllSubmatch(raw, -1) {
				name := filepath.Base(filepath.Dir(file)) + "."
				if len(found[1]) > 0 {
					name += string(found[1]) + "."
				}
				exists[name+string(found[2])] = true
			}
		}
	}
	row, rules := regexp.MustCompile("(?m)^\\| (\\d+)\\. .*?\\| (`[^|]*`) \\| `"), 0
	for _, found := range row.FindAllSubmatch(page, -1) {
		rules++
		for name := range strings.SplitSeq(string(found[2]), ", ") {
			if name = strings.Trim(name, "`"); !exists[name] {
				t.Errorf("rule %s names function %s, which does not exist", found[1], name)
			}
		}
	}
	if rules != 16 {
		t.Errorf("the table has %d rules, want 16", rules)
	}
}

package shape_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/api/crds"
	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// A new pattern in a definition fails this test until it is described in words. So does one that no definition has any more.
func TestEveryPatternHasWords(t *testing.T) {
	words, used := shape.PatternWords(), map[string]bool{}
	entries, err := crds.FS.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		raw, err := crds.FS.ReadFile(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		spec, _, _ := strings.Cut(string(raw), "\n          status:\n")
		for _, found := range regexp.MustCompile(`(?m)^ +pattern: (.*)$`).FindAllStringSubmatch(spec, -1) {
			used[found[1]] = true
			if words[found[1]] == "" {
				t.Errorf("%s: the pattern %s has no words", entry.Name(), found[1])
			}
		}
	}
	for pattern := range words {
		if !used[pattern] {
			t.Errorf("no definition has the pattern %s", pattern)
		}
	}
}

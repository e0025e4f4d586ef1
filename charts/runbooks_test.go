package charts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever is paged is led to a page, and finds it from the index as well.
func TestEachAlertHasItsRunbook(t *testing.T) {
	const folder = "../docs/runbooks"
	raw, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	index, pages := string(raw), map[string]bool{"README.md": true}
	for name, rule := range alerts(t, everywhere...) {
		_, page, ok := strings.Cut(rule.Annotations["runbook_url"], "/blob/main/docs/runbooks/")
		if !ok {
			t.Errorf("%s: runbook %q is none of this tree", name, rule.Annotations["runbook_url"])
			continue
		}
		pages[page] = true
		text, err := os.ReadFile(filepath.Join(folder, page))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, words := range []string{"# " + name + "\n", "**It means:**", "**Who is affected:**", "**Is it right?**", "\n## Do\n", "\n## It is over when\n", "**Prevent it:**"} {
			if !strings.Contains(string(text), words) {
				t.Errorf("%s does not have %q", page, words)
			}
		}
		if words := len(strings.Fields(string(text))); words > 600 {
			t.Errorf("%s has %d words, which is too long for who was woken", page, words)
		}
		if row := fmt.Sprintf("| [%s](%s) | %s |", strings.TrimPrefix(name, "Breakwater"), page, rule.Labels["severity"]); !strings.Contains(index, row) {
			t.Errorf("the index does not have %q", row)
		}
	}
	there, err := filepath.Glob(folder + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range there {
		if !pages[filepath.Base(path)] {
			t.Errorf("%s is of no alert", path)
		}
	}
}

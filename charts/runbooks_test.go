package charts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
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

// Commands of runbooks about pods of components are not run where their faults are tested, since components are no pods there. What they choose
// by labels is what the chart installs.
func TestRunbooksChooseWhatTheChartInstalls(t *testing.T) {
	all, err := doctest.All("..")
	if err != nil {
		t.Fatal(err)
	}
	objects := render(t, append(everywhere, "--namespace=breakwater-system")...)
	looked := 0
	for _, page := range all {
		if !strings.HasPrefix(page.Path, "docs/runbooks/") {
			continue
		}
		for _, command := range page.NotRun() {
			words := strings.Fields(command.Text)
			if !slices.Contains(words, "breakwater-system") {
				continue
			}
			looked++
			if !chooses(t, objects, words) {
				t.Errorf("%s:%d: %s: it chooses nothing of the chart", page.Path, command.Line, command.Text)
			}
		}
	}
	if looked == 0 {
		t.Error("no runbook looks at a component")
	}
}

// chooses tells whether a command of kubectl chooses a Deployment by labels, or pods of one.
func chooses(t *testing.T, objects []*unstructured.Unstructured, words []string) bool {
	t.Helper()
	at := slices.Index(words, "-l")
	if at < 0 {
		return false
	}
	selector, err := labels.Parse(words[at+1])
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
		if o.GetKind() != "Deployment" || o.GetNamespace() != "breakwater-system" {
			return false
		}
		chosen, _, err := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
		if slices.Contains(words, "deployment") {
			chosen = o.GetLabels()
		}
		return err == nil && selector.Matches(labels.Set(chosen))
	})
}

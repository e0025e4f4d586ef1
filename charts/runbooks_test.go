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

// Every alert links to a runbook, and the index lists it.
func TestEveryAlertHasARunbook(t *testing.T) {
	const folder = "../docs/runbooks"
	raw, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	index, pages := string(raw), map[string]bool{"README.md": true}
	for name, rule := range alerts(t, fullRelease...) {
		_, page, ok := strings.Cut(rule.Annotations["runbook_url"], "/blob/main/docs/runbooks/")
		if !ok {
			t.Errorf("%s: runbook %q is not in this repository", name, rule.Annotations["runbook_url"])
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
			t.Errorf("%s has %d words, which is too long for an on-call engineer", page, words)
		}
		if row := fmt.Sprintf("| [%s](%s) | %s |", strings.TrimPrefix(name, "Breakwater"), page, rule.Labels["severity"]); !strings.Contains(index, row) {
			t.Errorf("the index does not have %q", row)
		}
	}
	paths, err := filepath.Glob(folder + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if !pages[filepath.Base(path)] {
			t.Errorf("runbook %s belongs to no alert", path)
		}
	}
}

// The tests of runbooks run components as processes, so they cannot run commands about the pods of components. This test checks the label
// selectors of these commands against the chart.
func TestRunbookSelectorsMatchTheChart(t *testing.T) {
	all, err := doctest.All("..")
	if err != nil {
		t.Fatal(err)
	}
	objects := render(t, append(fullRelease, "--namespace=breakwater-system")...)
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
			if !matchesSelector(t, objects, words) {
				t.Errorf("%s:%d: %s: the command selects nothing of the chart", page.Path, command.Line, command.Text)
			}
		}
	}
	if looked == 0 {
		t.Error("no runbook has a command that selects a component")
	}
}

// matchesSelector reports whether a kubectl command selects a Deployment or DaemonSet by labels, or pods of one.
func matchesSelector(t *testing.T, objects []*unstructured.Unstructured, words []string) bool {
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
		if o.GetKind() != "Deployment" && o.GetKind() != "DaemonSet" || o.GetNamespace() != "breakwater-system" {
			return false
		}
		chosen, _, err := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
		if slices.Contains(words, "deployment") {
			chosen = o.GetLabels()
		}
		return err == nil && selector.Matches(labels.Set(chosen))
	})
}

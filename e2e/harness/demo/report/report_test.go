package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// fixture returns a report of two short runs, with text that must be escaped.
func fixture() Report {
	attack := Attack{Name: `random <b>"deletes"</b> & more`, BeginSeconds: 1, EndSeconds: 4, Counts: storm.Counts{Attempted: 9, Admitted: 3, Denied: 6}}
	return Report{
		Floor: 4, Pods: 6, Clients: 2, Seed: 7, Cells: []string{"worker-1", "worker-2"},
		Started:  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Versions: Versions{Breakwater: "v0.0.0", Kubernetes: "v1.36.3", Platform: "linux/amd64"},
		Unprotected: Run{
			Counts: storm.Counts{Attempted: 9, Admitted: 6, Missed: 3}, Removals: 6, OverAdmissions: 4,
			DurationSeconds: 3, PerAttack: []Attack{attack},
			Timeline: []Point{{0, 6, []int{3, 3}}, {1.5, 2, []int{1, 1}}, {2.25, 0, []int{0, 0}}, {4, 0, []int{0, 0}}},
		},
		Protected: Run{
			Counts: storm.Counts{Attempted: 9, Admitted: 3, Denied: 6}, Removals: 3, MinAvailable: 4, FinalAvailable: 4,
			DurationSeconds: 3, PerAttack: []Attack{attack},
			Recovery: &Recovery{BeginSeconds: 5, UsableAfterSeconds: 1.25, Available: 6},
			Denial:   `admission webhook "pods.breakwater.dev" denied the request: </pre><script>alert(1)</script>`,
			Timeline: []Point{{0, 6, []int{3, 3}}, {1.5, 4, []int{1, 3}}, {5.5, 6, []int{3, 3}}, {6.5, 6, []int{3, 3}}},
		},
	}
}

func TestJSONRoundTrips(t *testing.T) {
	raw, err := fixture().JSON()
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fixture(), back); diff != "" {
		t.Errorf("-written +read\n%s", diff)
	}
	var loose map[string]any
	if err := json.Unmarshal(raw, &loose); err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{"unprotected", "protected"} {
		fields, ok := loose[run].(map[string]any)
		if !ok {
			t.Fatalf("%s is missing", run)
		}
		for _, field := range []string{"attempted", "admitted", "refused", "minAvailable", "overAdmissions", "finalAvailable", "durationSeconds", "perAttack", "timeline"} {
			if _, ok := fields[field]; !ok {
				t.Errorf("%s.%s is missing", run, field)
			}
		}
	}
	if loose["floor"] != 4.0 {
		t.Errorf("floor is %v", loose["floor"])
	}
}

func TestOutcome(t *testing.T) {
	for claim, c := range map[string]struct {
		change       func(*Report)
		held, proves bool
		want         string
	}{
		"the floor held": {func(*Report) {}, true, true, "The floor held"},
		"a removal below the floor breaks the promise": {func(r *Report) { r.Protected.OverAdmissions, r.Protected.MinAvailable = 1, 3 }, false, true, "The floor was broken"},
		"so do too few available pods":                 {func(r *Report) { r.Protected.MinAvailable = 3 }, false, true, "The floor was broken"},
		"a storm that is too weak proves nothing":      {func(r *Report) { r.Unprotected.MinAvailable = 4 }, true, false, "proved nothing"},
	} {
		t.Run(claim, func(t *testing.T) {
			r := fixture()
			c.change(&r)
			if r.Held() != c.held || r.Proves() != c.proves || !strings.Contains(r.Outcome(), c.want) {
				t.Errorf("Held() = %t, Proves() = %t, Outcome() = %q; want %t, %t, %q", r.Held(), r.Proves(), r.Outcome(), c.held, c.proves, c.want)
			}
		})
	}
}

// texts parses a whole XML document and returns the texts of its elements by name.
func texts(t *testing.T, source string) map[string][]string {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(source))
	found := map[string][]string{}
	var path []string
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			path = append(path, token.Name.Local)
			found[token.Name.Local] = append(found[token.Name.Local], "")
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.CharData:
			if len(path) > 0 {
				all := found[path[len(path)-1]]
				all[len(all)-1] += string(token)
			}
		}
	}
}

func TestSVGIsWellFormedAndHasADescription(t *testing.T) {
	for _, r := range []Report{fixture(), {}} {
		texts(t, r.SVG())
	}
	found := texts(t, fixture().SVG())
	if len(found["title"]) != 1 || len(found["desc"]) != 1 {
		t.Fatalf("want a title and a description, got %q and %q", found["title"], found["desc"])
	}
	for _, want := range []string{"6 pods", "floor 4", "falls to 0", "never below 4"} {
		if !strings.Contains(found["desc"][0], want) {
			t.Errorf("the description does not contain %q: %s", want, found["desc"][0])
		}
	}
	text := strings.Join(found["text"], "\n")
	for _, want := range []string{"floor 4", "with Breakwater", "without Breakwater", fixture().Protected.PerAttack[0].Name, "with Breakwater: application deployed again"} {
		if !strings.Contains(text, want) {
			t.Errorf("the SVG does not contain %q:\n%s", want, text)
		}
	}
	if strings.Contains(fixture().SVG(), "<script") || len(found["script"]) > 0 {
		t.Error("the SVG contains a script")
	}
}

func TestTableAligns(t *testing.T) {
	lines := strings.Split(strings.TrimRight(fixture().Table(), "\n"), "\n")
	for _, line := range lines {
		if len([]rune(line)) != len([]rune(lines[0])) {
			t.Errorf("line %q does not have the length of the header", line)
		}
	}
	if !strings.Contains(fixture().Table(), "fewest available pods") {
		t.Errorf("the table does not have the fewest available pods:\n%s", fixture().Table())
	}
}

package chaos

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

func TestReportIsWrittenAsHTMLAndJSON(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new")
	r := &Report{Scenarios: []Result{
		{Name: "all <is> well", Seed: 1, Admitted: 12, Legal: 12, Floor: 3, MinAvailable: 3, RecoverySeconds: 1.5, Files: "all-1"},
		{Name: "all <is> well", Seed: 2, Admitted: 3, Legal: 2, Floor: 3, MinAvailable: 2, OverAdmissions: 1, RecoverySeconds: -1},
	}}
	if err := r.Write(folder); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(folder, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var loose struct{ Scenarios []map[string]any }
	if err := json.Unmarshal(raw, &loose); err != nil || len(loose.Scenarios) != 2 {
		t.Fatalf("%v in %s", err, raw)
	}
	for _, field := range []string{"name", "seed", "attempted", "admitted", "legal", "overAdmissions", "minAvailable", "floor", "recoverySeconds"} {
		if _, ok := loose.Scenarios[1][field]; !ok {
			t.Errorf("%s is missing in %s", field, raw)
		}
	}
	page, err := os.ReadFile(filepath.Join(folder, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1 of 2 storms failed. 1 of 15 admitted removals", "all &lt;is&gt; well", `src="all-1.svg"`, `href="all-1.txt"`,
		`class="bad">1</td>`, "never", "1 over-admissions: 2 pods were available, the floor is 3",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	r.Scenarios = r.Scenarios[:1]
	if got := r.Outcome(); !strings.Contains(got, "1 storms, 12 removals admitted: none left") {
		t.Error(got)
	}
}

func TestPlotShowsFaultAndAnswers(t *testing.T) {
	evidence := Evidence{Floor: 3, Requests: []RemovalRequest{admitted("a", 1), refused("b", 2), refused("b", 3)},
		Truths: truths([]Fact{fact(storm.Removed, "a", 1)}, nil)}
	got := timeline{
		name: "a fault", seed: 7, evidence: evidence, judgement: Validate(evidence), faultBegan: time.Second, faultEnded: 2 * time.Second,
	}.chart().SVG()
	for _, want := range []string{
		"a fault, seed 7", "from 1.0 s to 2.0 s", "at least 3 pods", "0 removals leave fewer", "1 requests admitted", "2 refused",
		"floor 3",
		// The whole width of 902 is 2 seconds, of which the fault has the second one.
		`<rect class="span" x="495.0" y="60.0" width="451.0"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the plot does not contain %q: %s", want, got)
		}
	}
}

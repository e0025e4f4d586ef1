package demo

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/e2e/harness/demo/report"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// The pictures of the documentation show the recorded storm.
func TestRecordedStormHasTheAttacksOfTheDemo(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/storm.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded report.Report
	if err := json.Unmarshal(raw, &recorded); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, attack := range plan(Options{}, accident{}, storm.Scope{}, nil).Progress() {
		want = append(want, attack.Attack)
	}
	for _, attack := range recorded.Protected.PerAttack {
		got = append(got, attack.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attacks of the demo and of docs/storm.json differ; run make demo, and go run ./hack/storm -record demo-report/report.json (-want +got):\n%s", diff)
	}
}

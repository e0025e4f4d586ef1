package chaos

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func seconds(s float64) *float64 { return &s }

func yes(b bool) *bool { return &b }

func TestReportSumsUpCoreOutages(t *testing.T) {
	storm := func(over int, first, rejoin *float64) Result {
		return Result{OverAdmissions: over, CoreOutage: &OutageResult{FirstLocalAdmissionSeconds: first, RejoinSeconds: rejoin}}
	}
	rollout := func(complete bool) Result { return Result{CoreOutage: &OutageResult{RolloutCompletes: yes(complete)}} }
	for claim, c := range map[string]struct {
		results []Result
		want    map[string]any
	}{
		"nothing without outages": {[]Result{{OverAdmissions: 3}}, map[string]any{}},
		"the longest times of all storms": {
			[]Result{storm(0, seconds(1), seconds(4)), storm(0, seconds(2), seconds(3)), {OverAdmissions: 3}},
			map[string]any{"core_outage_over_admissions": 0.0, "first_local_admission_s": 2.0, "rejoin_s": 4.0},
		},
		"no time that was not measured": {
			[]Result{storm(2, nil, nil), storm(1, seconds(2), nil)},
			map[string]any{"core_outage_over_admissions": 3.0, "first_local_admission_s": 2.0},
		},
		"a complete rollout": {
			[]Result{rollout(true)}, map[string]any{"core_outage_over_admissions": 0.0, "core_outage_rollout_completes": 1.0},
		},
		"a rollout that is not complete among others": {
			[]Result{rollout(true), rollout(false), rollout(true)},
			map[string]any{"core_outage_over_admissions": 0.0, "core_outage_rollout_completes": 0.0},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			folder, r := t.TempDir(), &Report{}
			for _, result := range c.results {
				r.Add(result)
			}
			if err := r.Write(folder); err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(filepath.Join(folder, "report.json"))
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			delete(got, "scenarios")
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// make chaos ARGS="-only core-outage" selects these scenarios by their names.
func TestOnlyScenariosWithSharesAreNamedCoreOutage(t *testing.T) {
	for _, scenario := range Scenarios() {
		if named := strings.HasPrefix(scenario.Name, "core-outage: "); named != scenario.NeedsShares() {
			t.Errorf("scenario %q: named %v, needs shares %v", scenario.Name, named, scenario.NeedsShares())
		}
	}
}

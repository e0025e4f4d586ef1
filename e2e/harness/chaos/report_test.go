package chaos

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReportIsWrittenAsJSON(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new")
	r := &Report{Scenarios: []Result{
		{Name: "all <is> well", Seed: 1, Admitted: 12, Legal: 12, Floor: 3, MinAvailable: 3, RecoverySeconds: 1.5, Trace: "all-1.txt"},
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
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "1 over-admissions: 2 pods were available, the floor is 3") || !strings.Contains(err.Error(), "no recovery") {
		t.Errorf("Err() = %v, want the over-admission and that there was no recovery", err)
	}
}

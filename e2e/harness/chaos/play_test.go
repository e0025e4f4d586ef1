package chaos

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestScaleMakesStormsLargerAndLonger(t *testing.T) {
	one := size{pods: 40, floor: 30, surplus: 6, growth: 6, clients: 10, before: 60, after: 3 * time.Second}
	if diff := cmp.Diff(one, Plan{Scale: 1}.size(), cmp.AllowUnexported(size{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	three := size{pods: 120, floor: 90, surplus: 18, growth: 18, clients: 30, before: 540, after: 9 * time.Second}
	if diff := cmp.Diff(three, Plan{Scale: 3}.size(), cmp.AllowUnexported(size{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestScenarioNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, scenario := range Scenarios() {
		if name := slug(scenario.Name); seen[name] || name == "" || (scenario.fault == nil) != scenario.rollout {
			t.Errorf("scenario %q: file %q, fault %t, rollout %t", scenario.Name, name, scenario.fault != nil, scenario.rollout)
		} else {
			seen[name] = true
		}
	}
}

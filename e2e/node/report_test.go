package node_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// outcome is what a disaster did.
type outcome struct {
	// Killed is the number of containers of the protected workloads that ended.
	Killed int `json:"containers_killed"`
	// Registered is the time until the API server had all of their pods again, running and ready. Unanswered is the longest time without an
	// answer of the Service. Both are in seconds.
	Registered float64 `json:"reregistered_s"`
	Unanswered float64 `json:"unanswered_s"`
	// Rebooted reports that a node was rebooted. That ends its containers, so that Killed has those whose pods do not run again, and the times
	// are those of a boot.
	Rebooted bool `json:"node_rebooted,omitempty"`
}

// report is the content of report.json: the worst of all disasters with the guard, and each of them.
type report struct {
	outcome
	Disasters map[string]outcome `json:"disasters"`
	Without   []namedOutcome     `json:"without_guard"`
}

type namedOutcome struct {
	Name string `json:"name"`
	outcome
}

func (r *report) compute() {
	for _, o := range r.Disasters {
		r.Killed = max(r.Killed, o.Killed)
		if !o.Rebooted {
			r.Registered, r.Unanswered = max(r.Registered, o.Registered), max(r.Unanswered, o.Unanswered)
		}
	}
}

func (r *report) save(folder string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "report.json"), append(raw, '\n'), 0o600)
}

// The goals.
const (
	maxRegistered = 30
	maxUnanswered = 5
)

func (r *report) check(t *testing.T) {
	t.Helper()
	if len(r.Without) == 0 || r.Without[0].Killed == 0 {
		t.Errorf("without the guard %+v: want that containers end, or this test shows nothing", r.Without)
	}
	for name, o := range r.Disasters {
		if o.Killed > 0 || !o.Rebooted && (o.Registered > maxRegistered || o.Unanswered > maxUnanswered) {
			t.Errorf("%s: %d containers ended, pods registered again after %.1f s, %.1f s without answers; want 0, at most %d and %d",
				name, o.Killed, o.Registered, o.Unanswered, maxRegistered, maxUnanswered)
		}
	}
}

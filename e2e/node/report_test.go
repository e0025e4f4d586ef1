package node_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/measure"
)

// outcome is what a disaster did.
type outcome struct {
	// Killed is the number of containers of the protected workloads that ended.
	Killed int `json:"containers_killed"`
	// Registered is the time until the API server had all of their pods again, running and ready. Unanswered is the longest time without an
	// answer of the Service. Both are in seconds.
	Registered float64 `json:"reregistered_s"`
	Unanswered float64 `json:"unanswered_s"`
	// Untimed is why the times have no goals; empty if they have.
	Untimed string `json:"untimed,omitempty"`
}

// The reasons for which times have no goals.
const (
	// wasRebooted: the containers of the node end, so that Killed has those whose pods do not run again, and the times are those of a boot.
	wasRebooted = "a node was rebooted"
	wereStopped = "no guard could run for a minute"
	// wereAway: the nodes of the cluster become not ready, with or without guards.
	wereAway = "the kubelets were led to another cluster for more than a minute"
)

// cost is what the guards cost.
type cost struct {
	// Requests are those that the guards forwarded since they were last started. Over is the number of those to which they added more than 1 ms,
	// and Mean what they added to one, in milliseconds.
	Requests float64 `json:"requests"`
	Over     float64 `json:"over_1ms"`
	Mean     float64 `json:"mean_added_ms"`
	// Memory is that of the largest process, in MiB.
	Memory float64 `json:"memory_mib"`
}

// cost returns what the guards cost since they were last started.
func (f *fixture) cost() (c cost) {
	f.Helper()
	for _, node := range f.workers {
		metrics := f.on(node, "curl -s http://127.0.0.1:16444/metrics")
		const added = "breakwater_node_request_added_seconds"
		count := measure.Sum(metrics, added+"_count", "")
		if count == 0 {
			f.Fatalf("the guard of node %s has forwarded no requests", node)
		}
		c.Mean = (c.Mean*c.Requests + 1000*measure.Sum(metrics, added+"_sum", "")) / (c.Requests + count)
		c.Requests += count
		c.Over += count - measure.Sum(metrics, added+"_bucket", fmt.Sprintf(`le="%v"`, maxAdded.Seconds()))
		kib, err := strconv.ParseFloat(f.on(node, "ps -o rss= -p $(systemctl show -P MainPID breakwater-node)"), 64)
		f.must(err)
		c.Memory = max(c.Memory, kib/1024)
	}
	return c
}

// report is the content of report.json: the worst of all disasters with the guard, and each of them.
type report struct {
	outcome
	Disasters map[string]outcome `json:"disasters"`
	Without   []namedOutcome     `json:"without_guard"`
	Cost      cost               `json:"cost"`
}

type namedOutcome struct {
	Name string `json:"name"`
	outcome
}

func (r *report) compute() {
	for _, o := range r.Disasters {
		r.Killed = max(r.Killed, o.Killed)
		if o.Untimed == "" {
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
	maxAdded      = time.Millisecond
	maxMemory     = 30
)

func (r *report) check(t *testing.T) {
	t.Helper()
	if len(r.Without) == 0 || r.Without[0].Killed == 0 {
		t.Errorf("without the guard %+v: want that containers end, or this test shows nothing", r.Without)
	}
	if c := r.Cost; c.Requests == 0 || c.Memory > maxMemory {
		t.Errorf("the guards cost %+v, want requests, and at most %d MiB", c, maxMemory)
	}
	for name, o := range r.Disasters {
		if o.Killed > 0 || o.Untimed == "" && (o.Registered > maxRegistered || o.Unanswered > maxUnanswered) {
			t.Errorf("%s: %d containers ended, pods registered again after %.1f s, %.1f s without answers; want 0, at most %d and %d",
				name, o.Killed, o.Registered, o.Unanswered, maxRegistered, maxUnanswered)
		}
	}
}

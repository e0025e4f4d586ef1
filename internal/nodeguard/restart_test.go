package nodeguard

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard/podwire"
)

// A node boots with a wrong clock, and NTP sets it while the guard does not run.
func TestClockStepDoesNotEndHeldPods(t *testing.T) {
	f := newAskingFixture(t)
	f.clock.Step(30 * time.Second)
	f.guard.storeRunningTime()
	f.clock.SetTime(f.clock.Now().AddDate(50, 0, 0))
	f.start()
	if _, held := f.after(0); !held {
		t.Fatalf("a pod that was held for 30 s ended after a step of the clock, want it held for %s", f.ending.retention)
	}
	f.guard.explain(f.pod, errNotSound)
	if q, _ := f.after(podhold.SettleTime - 31*time.Second); q != "" {
		t.Errorf("the guard asks %q before the pod was held for %s", q, podhold.SettleTime)
	}
	if q, _ := f.after(time.Second); q == "" {
		t.Errorf("no question after the pod was held for %s", podhold.SettleTime)
	}
}

// The guard does not know for how long it did not run, so only the time that it has seen and stored counts.
func TestRetentionCountsOnlyTimeThatGuardsHaveSeen(t *testing.T) {
	f := newAskingFixture(t)
	for range 2 {
		f.clock.Step(20 * time.Minute)
		f.guard.storeRunningTime()
		f.clock.Step(time.Hour) // without a guard
		f.start()
	}
	if _, held := f.after(20*time.Minute - time.Second); !held {
		t.Error("the pod ended before guards had held it for an hour")
	}
	if _, held := f.after(time.Second); held {
		t.Error("the pod is held although guards have held it for an hour")
	}
}

// shown returns the names of the pods that the kubelet sees if the API server has none.
func (f *askingFixture) shown() (names []string) {
	f.Helper()
	body, err := f.guard.observeList(f.Context(), podwire.JSON, []byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}`))
	if err != nil {
		f.Fatal(err)
	}
	shown, err := podwire.ParseList(podwire.JSON, body)
	if err != nil {
		f.Fatal(err)
	}
	for _, item := range shown.Items() {
		pod, err := podwire.Decode(podwire.JSON, item)
		if err != nil {
			f.Fatal(err)
		}
		names = append(names, pod.Name)
	}
	return names
}

func (f *askingFixture) wantMetric(name string, want int) {
	f.Helper()
	w := httptest.NewRecorder()
	f.guard.metrics.handler(f.guard, func() string { return "" }).ServeHTTP(w, httptest.NewRequestWithContext(f.Context(), http.MethodGet, "/metrics", http.NoBody))
	if line := fmt.Sprintf("%s %d\n", name, want); !strings.Contains(w.Body.String(), "\n"+line) {
		f.Errorf("the metrics do not have %s:\n%s", line, w.Body)
	}
}

// The disk of a node can be a copy of another's, and a node that was replaced can have the name and the disk of the former one. The kubelet must
// start none of the pods of these.
func TestStoredPodsOfOtherNodesAndMachinesAreNotShown(t *testing.T) {
	for claim, tc := range map[string]struct {
		node    string
		machine podhold.Machine
		want    []string
		reason  podhold.Rejection
	}{
		"the same":            {"n", podhold.Machine{System: "a"}, []string{"seen", "web-0"}, ""},
		"an unknown machine":  {"n", podhold.Machine{}, []string{"seen", "web-0"}, ""},
		"another node":        {"n2", podhold.Machine{System: "a"}, nil, podhold.OtherNode},
		"another machine":     {"n", podhold.Machine{System: "b"}, nil, podhold.OtherMachine},
		"another of the node": {"n2", podhold.Machine{System: "b"}, nil, podhold.OtherNode},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newAskingFixture(t)
			f.run("seen")
			f.node, f.machine = tc.node, tc.machine
			for _, rejected := range []int{2, 0} { // what was rejected is removed, so that a later guard does not use it either
				f.start()
				if got := f.shown(); !slices.Equal(got, tc.want) {
					t.Errorf("the kubelet sees %v, want %v", got, tc.want)
				}
				for _, reason := range podhold.Rejections() {
					f.wantMetric(fmt.Sprintf(`breakwater_node_rejected_stored_pods{reason="%s"}`, reason), map[bool]int{true: rejected}[reason == tc.reason])
				}
			}
			files, err := filepath.Glob(filepath.Join(f.dir, "*"+podSuffix))
			if err != nil || len(files) != len(tc.want) {
				t.Errorf("stored pods %v (%v), want %d", files, err, len(tc.want))
			}
		})
	}
}

package nodeguard

import (
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
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
	f.guard.explain(f.pod.NamespacedName, errNotSound)
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

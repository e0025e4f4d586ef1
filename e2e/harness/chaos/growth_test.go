package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// ramp returns 16 samples: a warm-up of 4 that does not count, then thirds of 4.
func ramp(first, last float64) []float64 {
	return []float64{1, 1000, 1, 1000, first, first, first, first, 7, 7, 7, 7, last, last, last, last}
}

func TestGrowthComparesThirdsAfterTheWarmUp(t *testing.T) {
	s := newSamples()
	s.values = map[series][]float64{
		{memoryKind, "webhooks"}: ramp(40, 44), {memoryKind, "aggregators"}: ramp(50, 50), {heapKind, "webhooks"}: ramp(10, 14),
		{goroutinesKind, "webhooks"}: ramp(100, 90), {etcdKind, "core"}: ramp(8, 12), {etcdKind, "worker-1"}: {1, 2}, // too few
	}
	for i := range 8 { // a warm-up of 2, then thirds of 2
		s.addRemovals([]time.Duration{time.Duration(i) * 10 * time.Millisecond})
	}
	long := s.growth(30 * time.Minute)
	want := map[string]float64{"memory": 40, "goroutines": -10, "etcd": 50, "p99": 100 * (70.0/30 - 1)}
	if diff := cmp.Diff(want, long.Worst(), cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })); diff != "" {
		t.Errorf("growth (-want +got):\n%s", diff)
	}
	if err := long.Err(); err == nil || !strings.Contains(err.Error(), "etcd grew by 50 %") || !strings.Contains(err.Error(), "memory grew by 40 %") ||
		strings.Contains(err.Error(), "p99") {
		t.Errorf("Err() = %v, want the growth of etcd and memory", err)
	}
	if err := s.growth(4 * time.Minute).Err(); err != nil {
		t.Errorf("Err() of a short soak = %v, want none", err)
	}
	r := &Report{Scenarios: []Result{{Name: SoakName, Admitted: 1}}}
	r.SetGrowth(long)
	if *r.SoakGrowthPercent != long.Worst()["memory"] || r.Err() == nil {
		t.Errorf("the report has a growth of %v and the error %v, want %v and an error", *r.SoakGrowthPercent, r.Err(), long.Worst()["memory"])
	}
	if empty := newSamples().growth(time.Minute); len(empty.Figures) != 0 || len(empty.Worst()) != 0 {
		t.Errorf("growth without samples: %+v", empty)
	}
}

func TestResourceOfKey(t *testing.T) {
	for key, want := range map[string]string{
		"/registry/pods/shop/web-0":                            "pods",
		"/registry/services/specs/shop/web":                    "services",
		"/registry/breakwater.dev/podprotectors/shop/web":      "podprotectors.breakwater.dev",
		"/registry/apiregistration.k8s.io/apiservices/v1.apps": "apiservices.apiregistration.k8s.io",
		"/registry/health":                                     "health",
	} {
		if got := resourceOf(key); got != want {
			t.Errorf("resourceOf(%q) = %q, want %q", key, got, want)
		}
	}
}

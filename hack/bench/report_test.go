package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sample = `goos: linux
BenchmarkQuery/own/selectors=200000/labels=4-2     	 1000000	       812.5 ns/op	         1.000 matches/op	       0 B/op	       0 allocs/op
BenchmarkQuery/shared/selectors=200000/labels=4-2  	 1000000	      1012 ns/op	       0 B/op	       0 allocs/op
BenchmarkQuery/own/selectors=200/labels=4-2        	 1000000	      9999 ns/op	       7 allocs/op
BenchmarkStorm-2	       3	         0.5000 ratio	         0.04000 writes/removal	         0.6000 reviewed-ratio
BenchmarkUncontendedDelete-2	       2	        16.00 protected-p50-ms	        40.00 protected-p99-ms	         5.000 unprotected-p50-ms	        18.00 unprotected-p99-ms
BenchmarkReplicas/replicas=1-2	    3000	     400.0 removals/s
BenchmarkReplicas/replicas=3-2	    3000	     300.0 removals/s
PASS
`

func TestReport(t *testing.T) {
	var results []result
	for line := range strings.Lines(sample) {
		if r, ok := parse(line); ok {
			results = append(results, r)
		}
	}
	got, missing := report(results)
	want := map[string]float64{
		"protected_over_unprotected": 0.5, "reviewed_over_unprotected": 0.6, "core_writes_per_admission": 0.04, "added_p99_ms": 22,
		"added_p50_ms": 11, "index_ns_200k": 1012, "index_allocs_200k": 0, "webhook_reviews_per_s": 400, "replicas_3_over_1": 0.75,
		"replica_conflict_cost": 0.25,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	wantMissing := []string{
		"aggregator_mib_100k_pods", "aggregator_relist_mib_100k", "federation_up_s", "first_aggregation_s", "status_kib_10k_reservations",
	}
	if diff := cmp.Diff(wantMissing, missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}

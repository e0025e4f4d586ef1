package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sample = `goos: linux
BenchmarkQuery/own/selectors=200000/labels=4-2     	 1000000	       812.5 ns/op	         1.000 matches/op	       0 B/op	       0 allocs/op
BenchmarkQuery/shared/selectors=200000/labels=4-2  	 1000000	      1012 ns/op	       0 B/op	       0 allocs/op
BenchmarkQuery/own/selectors=200/labels=4-2        	 1000000	      9999 ns/op	       7 allocs/op
BenchmarkStorm-2	       1	         0.5000 ratio	         0.04000 writes/removal	         0.6000 reviewed-ratio	 0.8 protected-over-reviewed	 0.35 cpu-ms-over-reviewed
BenchmarkStorm-2	       1	         0.4500 ratio	         0.03000 writes/removal	         0.7000 reviewed-ratio	 0.7 protected-over-reviewed	 0.6 cpu-ms-over-reviewed
BenchmarkStorm-2	       1	         0.9000 ratio	         0.05000 writes/removal	         0.5000 reviewed-ratio	 0.95 protected-over-reviewed	 0.3 cpu-ms-over-reviewed
BenchmarkUncontendedDelete-2	       2	        16.00 protected-p50-ms	        40.00 protected-p99-ms	         5.000 unprotected-p50-ms	        18.00 unprotected-p99-ms	         7.000 write-p50-ms	        21.00 write-p99-ms
BenchmarkReplicas/replicas=1-2	    3000	     400.0 removals/s
BenchmarkReplicas/replicas=3-2	    3000	     300.0 removals/s
BenchmarkReplicas/replicas=1#01-2	    3000	     500.0 removals/s
BenchmarkReplicas/replicas=3#01-2	    3000	     425.0 removals/s
BenchmarkPodCreate/alone-2   	 1	   1.500 asked-p50-ms	 4.000 asked-p99-ms	 2.500 scheduled-p50-ms	 6.000 scheduled-p99-ms	 1.000 unasked-p50-ms	 3.500 unasked-p99-ms
BenchmarkPodCreate/storm-2   	 1	  0.7500 asked-ratio	 0.6250 ratio
BenchmarkWebhook/core=stand-in/protectors=10000/one-2     	     3000	    437325 ns/op	 0 conflicts/review	  25.05 p50-ms	 53.99 p99-ms	 2287 reviews/s
PASS
`

func TestReport(t *testing.T) {
	got, missing := report(parseResults(sample))
	want := map[string]float64{
		"protected_over_unprotected": 0.5, "reviewed_over_unprotected": 0.6, "core_writes_per_admission": 0.04, "added_p99_ms": 22,
		"added_p50_ms": 11, "core_write_p50_ms": 7, "core_write_p99_ms": 21, "index_ns_200k": 1012, "index_allocs_200k": 0, "webhook_reviews_per_s": 450, "replicas_3_over_1": 0.8,
		"steady_ratio": 0.8, "cpu_ms_over_answering": 0.35, "podcreate_added_p50_ms": 1.5, "podcreate_added_p99_ms": 2.5, "podcreate_ratio": 0.625, "podcreate_asked_ratio": 0.75,
		"webhook_one_per_s_10k": 2287, "webhook_one_p50_ms_10k": 25.05, "webhook_one_p99_ms_10k": 53.99,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	// Each figure that the project promised is either reported or listed as missing.
	for _, key := range []string{
		"protected_over_unprotected", "core_writes_per_admission", "added_p99_ms", "index_ns_200k", "index_allocs_200k",
		"aggregator_mib_100k_pods", "status_kib_10k_reservations", "federation_up_s",
		"ring_max_over_mean", "ring_moved_on_add", "sharding_speedup_5", "sharder_mib_1k", "sharder_mib_50k", "sharder_whole_ms_50k", "sharder_light_ms_1k",
		"aggregator_write_all_s", "cold_ratio", "cold_400_ratio", "many_ratio", "many_free_counter_ratio", "ledger_write_over_status_write", "status_write_cpu_ms_0", "status_write_cpu_ms_20", "status_write_cpu_ms_100",
		"uncontended_p99_over_write", "refused_ratio", "wan_50ms_p50_over_rtt", "spread_reviews_per_s", "soak_growth_pct",
		"sharder_light_ms_50k", "assign_added_p99_ms", "podcreate_added_p99_ms", "podcreate_ratio",
	} {
		if _, there := got[key]; !there && !slices.ContainsFunc(missing, func(f figure) bool { return f.Key == key }) {
			t.Errorf("%s is neither reported nor missing", key)
		}
	}
	if found := len(got); found+len(missing) != len(figures()) {
		t.Errorf("%d figures and %d missing, of %d", found, len(missing), len(figures()))
	}
}

func TestGoals(t *testing.T) {
	table := goalTable(parseResults(sample))
	for _, want := range []string{
		"| `steady_ratio` | ≥ 0.93 | 0.8 | 0.7 to 0.95 in 3 | **missed** |",
		"| `cpu_ms_over_answering` | ≤ 0.4 ms | 0.35 ms | 0.3 to 0.6 in 3 | met |",
		"| `replicas_3_over_1` | ≥ 0.95 | 0.8 | 0.75 to 0.85 in 2 | **missed** |",
		"| `cold_ratio` | ≥ 0.65 | – |  |  |",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("the table does not contain %q:\n%s", want, table)
		}
	}
}

// A figure without its other side in the same round is missing, and never 0 or infinite.
func TestRounds(t *testing.T) {
	one := figure{Benchmark: "^A$", Unit: "x", Over: &figure{Benchmark: "^B$", Unit: "x"}}
	results := func(b ...float64) []result {
		all := []result{{"A", map[string]float64{"x": 2}}, {"A", map[string]float64{"x": 6}}}
		for _, value := range b {
			all = append(all, result{"B", map[string]float64{"x": value}})
		}
		return all
	}
	for _, test := range []struct{ b, want []float64 }{{nil, nil}, {[]float64{4}, []float64{0.5}}, {[]float64{4, 2}, []float64{0.5, 3}}, {[]float64{0, 2}, []float64{3}}} {
		if diff := cmp.Diff(test.want, one.rounds(results(test.b...))); diff != "" {
			t.Errorf("rounds with divisors %v (-want +got):\n%s", test.b, diff)
		}
	}
}

// A figure whose benchmark has another name would be missing without an error, until all benchmarks are run.
func TestFiguresNameBenchmarksThatExist(t *testing.T) {
	declared, exists := regexp.MustCompile(`(?m)^func Benchmark(\w+)\(`), map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, found := range declared.FindAllSubmatch(raw, -1) {
			exists[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var check func(f *figure)
	check = func(f *figure) {
		if f == nil {
			return
		}
		name, _, _ := strings.Cut(strings.Trim(f.Benchmark, "^$"), "/")
		if name != "" && !exists[name] {
			t.Errorf("%s is a figure of Benchmark%s, which does not exist", f.Key, name)
		}
		check(f.Less)
		check(f.Over)
	}
	for _, f := range figures() {
		check(&f)
	}
	if len(exists) == 0 || len(figures()) == 0 {
		t.Errorf("found %d benchmarks and %d figures", len(exists), len(figures()))
	}
}

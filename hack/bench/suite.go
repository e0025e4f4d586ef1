package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// suite is one call of go test. The benchmarks of a suite run one after the other.
type suite struct {
	name      string
	arguments []string
	// more suites run only with -all or if -only names them.
	more bool
}

// published reports whether the figures of the suite are in report.json. The others only fill tables of docs.
func (s suite) published() bool { return !strings.HasPrefix(s.name, "all-") }

// suites returns all suites. Together, those that are not more take less than 30 minutes on two cores. With -count each repetition of a
// benchmark is a round.
func suites() []suite {
	const aggregator = "^BenchmarkAggregator$/^pods=100000$/^(protectors=1000|protectors=10000)$/^(start|relist)$|" +
		"^BenchmarkAggregator$/^load$/^pods=100000$/^protectors=10000$/^events=500$/^applications=100$"
	return []suite{
		{name: "parts", arguments: []string{
			"-bench=^BenchmarkQuery$/./^selectors=200000$/^labels=4$|^BenchmarkStatusOf10000Reservations$|^BenchmarkBalance$", "-benchmem",
			"./internal/core/selectors", "./internal/core/quota", "./internal/sharding/ring",
		}},
		{name: "virtual", arguments: []string{"-bench=^BenchmarkVirtualStorm$", "-benchtime=1x", "./webhook/reserve"}},
		{name: "federation", arguments: []string{"-benchtime=3x", "./e2e/harness/federation/local"}},
		{name: "api", arguments: []string{"-bench=^BenchmarkStatusWrite$/^as=", "-benchtime=300x", "-count=3", "./internal/apitest/v1alpha1"}},
		{name: "ledger", arguments: []string{"-bench=^BenchmarkLedgerWrite$", "-benchtime=1x", "./internal/apitest/v1alpha1"}},
		{name: "replicas", arguments: []string{"-bench=^BenchmarkReplicas$/^replicas=[13]($|#)", "-benchtime=3000x", "./webhook", "-args", "-rounds=5"}},
		{name: "webhook", arguments: []string{"-bench=^BenchmarkWebhook$/./^protectors=10000$", "-benchtime=3000x", "-count=3", "./webhook"}},
		{name: "e2e", arguments: []string{"-skip=^BenchmarkFarCore$", "-benchtime=1x", "-count=5", "./e2e"}},
		{name: "wan", arguments: []string{"-bench=^BenchmarkFarCore$", "-benchtime=1x", "-count=5", "./e2e", "-args", "-far-core"}},
		{name: "soak", arguments: []string{"-bench=^BenchmarkSoak$", "-benchtime=1x", "./e2e/chaos", "-args", "-soak=3m"}},
		{name: "living", arguments: []string{"-bench=^BenchmarkLiving$/^rollout-200", "-benchtime=2x", "./e2e/living"}},
		{name: "terraform", arguments: []string{"-benchtime=1x", "./terraform-provider/provider"}},
		{name: "aggregator", arguments: []string{"-bench=" + aggregator, "-benchtime=1x", "./aggregator"}},

		{name: "scheduling", more: true, arguments: []string{"-benchtime=3x", "./e2e/scheduling"}},
		{name: "rings", more: true, arguments: []string{"-benchtime=1x", "./e2e/rings"}},
		{name: "all-parts", more: true, arguments: []string{
			"-benchmem", "./internal/core/selectors", "./internal/batch", "./internal/core/quota", "./e2e/harness/storm", "./internal/sharding/ring",
		}},
		{name: "all-api", more: true, arguments: []string{"-benchtime=500x", "./internal/apitest/v1alpha1"}},
		{name: "all-cells", more: true, arguments: []string{"-bench=^BenchmarkCells$", "-benchtime=300x", "./webhook"}},
		{name: "all-webhook", more: true, arguments: []string{"-skip=^BenchmarkCells$", "-benchtime=3000x", "./webhook"}},
		{name: "all-living", more: true, arguments: []string{"-benchtime=2x", "./e2e/living"}},
		{name: "all-aggregator", more: true, arguments: []string{"-benchtime=1x", "-timeout=40m", "./aggregator", "./aggregator/snapshot"}},
	}
}

// run runs the suite and writes its output to the file and to out.
func (s suite) run(ctx context.Context, out io.Writer, file string) error {
	text, err := os.Create(file)
	if err != nil {
		return err
	}
	defer text.Close()
	both := io.MultiWriter(out, text)
	if _, err := fmt.Fprintln(both, heading(s.name, time.Now(), loadAverage())); err != nil {
		return err
	}
	arguments := append([]string{"test", "-run=^$", "-bench=.", "-timeout=20m"}, s.arguments...)
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Stdout, cmd.Stderr = both, both
	// GOGC of the caller would reach the programs that are measured.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "GOGC=") })
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(arguments, " "), err)
	}
	return nil
}

// heading states when a suite ran, and the load of the machine before.
func heading(name string, at time.Time, load string) string {
	return fmt.Sprintf("# suite %s, %s, load average %s", name, at.UTC().Format("2006-01-02 15:04 UTC"), load)
}

// loadAverage returns the load average of the last minute; "unknown" where the kernel does not report it.
func loadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(raw), " ")
	return load
}

// result is one line of benchmark output: its figures by unit.
type result struct {
	name    string
	figures map[string]float64
}

// parseResults parses the output of a suite. A benchmark's name is printed when it begins and its figures when it ends. Output of
// the program under test may be between them.
func parseResults(text string) (results []result) {
	started := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		found, ok := parse(line)
		if !ok {
			found, ok = parse(started + " " + line)
		}
		if ok {
			results, started = append(results, found), ""
		} else if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(name, "Benchmark") {
			started, _, _ = strings.Cut(name, "\t")
		}
	}
	return results
}

// repetition is what go test adds to the name of a sub-benchmark that runs again.
var repetition = regexp.MustCompile(`#\d+`)

// parse parses a line such as "BenchmarkX-2  100  12.5 ns/op  0 allocs/op".
func parse(line string) (result, bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return result{}, false
	}
	if _, err := strconv.Atoi(fields[1]); err != nil {
		return result{}, false
	}
	name := strings.TrimPrefix(fields[0], "Benchmark")
	if end := strings.LastIndex(name, "-"); end > 0 { // the number of CPUs, which is omitted if it is 1
		if _, err := strconv.Atoi(name[end+1:]); err == nil {
			name = name[:end]
		}
	}
	r := result{name: repetition.ReplaceAllString(name, ""), figures: map[string]float64{}}
	for i := 2; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return result{}, false
		}
		r.figures[fields[i+1]] = value
	}
	return r, true
}

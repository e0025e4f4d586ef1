package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// suite is one call of go test. The benchmarks of a suite run one after the other.
type suite struct {
	name      string
	arguments []string
}

// suites returns all suites, the longest last.
func suites() []suite {
	return []suite{
		{"parts", []string{"-benchmem", "./internal/core/selectors", "./internal/batch", "./internal/core/quota", "./e2e/harness/storm", "./internal/sharding/ring"}},
		{"federation", []string{"-benchtime=5x", "./e2e/harness/federation/local"}},
		{"api", []string{"-benchtime=500x", "./internal/apitest/v1alpha1"}},
		{"cells", []string{"-bench=^BenchmarkCells$", "-benchtime=300x", "./webhook"}},
		{"webhook", []string{"-skip=^BenchmarkCells$", "-benchtime=3000x", "./webhook"}},
		{"e2e", []string{"-benchtime=3x", "./e2e"}},
		{"living", []string{"-benchtime=2x", "./e2e/living"}},
		{"scheduling", []string{"-benchtime=3x", "./e2e/scheduling"}},
		{"rings", []string{"-benchtime=1x", "./e2e/rings"}},
		{"terraform", []string{"-benchtime=1x", "./terraform-provider/provider"}},
		{"aggregator", []string{"-benchtime=1x", "-timeout=40m", "./aggregator"}},
	}
}

// run runs the suite and writes its output to the file and to out.
func (s suite) run(ctx context.Context, out io.Writer, file, profiles string) error {
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
	cmd.Env = append(os.Environ(), "BREAKWATER_PROFILES="+profiles)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(arguments, " "), err)
	}
	return nil
}

const headingBegins = "# suite "

// heading states when a suite ran, and the load of the machine before.
func heading(name string, at time.Time, load string) string {
	return fmt.Sprintf("%s%s, %s, load average %s", headingBegins, name, at.UTC().Format("2006-01-02 15:04 UTC"), load)
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

// record holds the results of a suite.
type record struct {
	suite string
	// heading states when the suite ran.
	heading string
	results []result
}

// result is one line of benchmark output: its figures by unit.
type result struct {
	name    string
	figures map[string]float64
}

// parseRecord parses the output of a suite. A benchmark's name is printed when it begins and its figures when it ends. Output of
// the program under test may be between them.
func parseRecord(suite, text string) record {
	r, started := record{suite: suite}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, found := strings.CutPrefix(line, headingBegins); found {
			r.heading = rest
		}
		found, ok := parse(line)
		if !ok {
			found, ok = parse(started + " " + line)
		}
		if ok {
			r.results, started = append(r.results, found), ""
		} else if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(name, "Benchmark") {
			started, _, _ = strings.Cut(name, "\t")
		}
	}
	return r
}

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
	r := result{name: name, figures: map[string]float64{}}
	for i := 2; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return result{}, false
		}
		r.figures[fields[i+1]] = value
	}
	return r, true
}

// Command bench runs all benchmarks and writes their figures to bench-report/: report.json, a flat object of the figures
// that we stand for (docs/performance.md), and benchmarks.txt, all that they printed.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// suites are calls of go test, the longest last.
func suites() [][]string {
	return [][]string{
		{"-benchmem", "./internal/selectorindex", "./internal/batch", "./internal/quota", "./internal/storm"},
		{"-benchtime=5x", "./internal/federation/local"},
		{"-benchtime=3000x", "./webhook"},
		{"-benchtime=1x", "-timeout=30m", "./aggregator"},
		{"-benchtime=3x", "-timeout=20m", "./e2e"},
	}
}

// result is one line of a benchmark: its figures by unit.
type result struct {
	name    string
	figures map[string]float64
}

func main() {
	only := flag.String("only", "", "`pattern` of the packages to run; the others' figures are left out")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, "bench-report", *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, folder, only string) error {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	text, err := os.Create(filepath.Join(folder, "benchmarks.txt"))
	if err != nil {
		return err
	}
	defer text.Close()
	var results []result
	var all []error
	for _, suite := range suites() {
		if !chosen.MatchString(strings.Join(suite, " ")) {
			continue
		}
		found, err := benchmark(ctx, io.MultiWriter(out, text), suite)
		results, all = append(results, found...), append(all, err)
	}
	figures, missing := report(results)
	raw, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "report.json"), append(raw, '\n'), 0o600); err != nil {
		return err
	}
	if only == "" && len(missing) > 0 {
		all = append(all, fmt.Errorf("no figures for %s", strings.Join(missing, ", ")))
	}
	return errors.Join(all...)
}

// benchmark runs one suite and passes on what it prints.
func benchmark(ctx context.Context, out io.Writer, suite []string) ([]result, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-run", "^$", "-bench", "."}, suite...)...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var results []result
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		_, _ = fmt.Fprintln(out, lines.Text())
		if r, ok := parse(lines.Text()); ok {
			results = append(results, r)
		}
	}
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil {
		return results, fmt.Errorf("go test %s: %w", strings.Join(suite, " "), err)
	}
	return results, nil
}

// parse reads a line such as "BenchmarkX-2  100  12.5 ns/op  0 allocs/op".
func parse(line string) (result, bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return result{}, false
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(fields[0], "Benchmark"), "-")
	if i := strings.LastIndex(fields[0], "-"); i > 0 { // the number of processors
		name = strings.TrimPrefix(fields[0][:i], "Benchmark")
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

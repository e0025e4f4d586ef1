// Command bench runs benchmarks and writes their figures to bench-report/: report.json, a flat object of the published
// figures (docs/reference/performance.md), and the full output of each suite. It prints the goals of performance as a Markdown table, and
// whether they are met. With -all it also runs the suites of other figures, and of those that show how cost grows.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
)

func main() {
	b := bench{out: os.Stdout, folder: "bench-report"}
	flag.StringVar(&b.only, "only", "", "`pattern` of the suites to run, of all; other suites keep the figures of their last run")
	flag.BoolVar(&b.all, "all", false, "run all suites, also those without goals; names begin with all- if a suite only fills tables of docs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := b.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run of the command.
type bench struct {
	out          io.Writer
	folder, only string
	all          bool
}

// run runs the suites. It reports a failed suite at the end, and keeps its results so far and those of the others.
func (b *bench) run(ctx context.Context) error {
	chosen, err := regexp.Compile(b.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if err := os.MkdirAll(b.folder, 0o755); err != nil {
		return err
	}
	var all []error
	for _, s := range suites() {
		if !chosen.MatchString(s.name) || s.more && b.only == "" && !b.all || ctx.Err() != nil {
			continue
		}
		if err := s.run(ctx, b.out, b.file(s)); err != nil {
			all = append(all, fmt.Errorf("suite %s: %w", s.name, err))
		}
	}
	results, err := b.read()
	all = append(all, err)
	missing, err := b.report(results)
	all = append(all, err)
	for _, f := range missing {
		if b.only == "" && (b.all || f.What != "") {
			all = append(all, fmt.Errorf("no figure %s", f.Key))
		}
	}
	return errors.Join(all...)
}

func (b *bench) file(s suite) string { return filepath.Join(b.folder, s.name+".txt") }

// read reads the results of all suites with published figures, from this run or an earlier one.
func (b *bench) read() (results []result, err error) {
	for _, s := range suites() {
		if !s.published() {
			continue
		}
		raw, err := os.ReadFile(b.file(s))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		results = append(results, parseResults(string(raw))...)
	}
	return results, nil
}

// report writes the published figures, and prints the goals.
func (b *bench) report(results []result) (missing []figure, err error) {
	figures, missing := report(results)
	raw, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(b.out, "\n%s", goalTable(results))
	return missing, os.WriteFile(filepath.Join(b.folder, "report.json"), append(raw, '\n'), 0o600)
}

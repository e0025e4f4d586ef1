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
	"slices"
	"strings"
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
	records, err := b.read()
	all = append(all, err)
	missing, err := b.report(records)
	all = append(all, err)
	if !b.all {
		missing = slices.DeleteFunc(missing, func(key string) bool { return !slices.ContainsFunc(goals(), func(g goal) bool { return g.key == key }) })
	}
	if b.only == "" && len(missing) > 0 {
		all = append(all, fmt.Errorf("no figures for %s", strings.Join(missing, ", ")))
	}
	return errors.Join(all...)
}

func (b *bench) file(s suite) string { return filepath.Join(b.folder, s.name+".txt") }

// read reads the output of all suites, from this run or an earlier one.
func (b *bench) read() ([]record, error) {
	var records []record
	for _, s := range suites() {
		raw, err := os.ReadFile(b.file(s))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		records = append(records, parseRecord(s, string(raw)))
	}
	return records, nil
}

// report writes the published figures, and prints the goals.
func (b *bench) report(records []record) (missing []string, err error) {
	figures, missing := report(published(records))
	raw, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(b.out, "\n%s", goalTable(published(records)))
	return missing, os.WriteFile(filepath.Join(b.folder, "report.json"), append(raw, '\n'), 0o600)
}

// published returns the results of all suites with published figures.
func published(records []record) (results []result) {
	for _, r := range records {
		if r.suite.published() {
			results = append(results, r.results...)
		}
	}
	return results
}

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/metrictable"
)

func TestPanelsDoNotOverlap(t *testing.T) {
	for name, d := range all() {
		taken, ids := map[[2]int]string{}, map[int]bool{}
		for _, p := range d.Panels {
			if p.Title == "" || ids[p.ID] {
				t.Errorf("%s: panel %d (%q) has an ID that another panel has: %v", name, p.ID, p.Title, ids[p.ID])
			}
			ids[p.ID] = true
			at := p.GridPos
			if at.W < 1 || at.H < 1 || at.X+at.W > columns {
				t.Errorf("%s: panel %s is outside the grid at %+v", name, p.Title, at)
			}
			for x := at.X; x < at.X+at.W; x++ {
				for y := at.Y; y < at.Y+at.H; y++ {
					if other, overlaps := taken[[2]int{x, y}]; overlaps {
						t.Fatalf("%s: panel %s overlaps %s", name, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}

// Queries may select and aggregate only by labels of the metrics that they use, or by labels that the scraper adds.
func TestQueriesMatchTheMetricsTable(t *testing.T) {
	rows, err := metrictable.Read("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	selector := regexp.MustCompile(`\b(breakwater_[a-z_]+)(?:\{([^}]*)\})?`)
	for name, d := range all() {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				labels := map[string]bool{"instance": true, "job": true, "namespace": true, "le": true}
				for _, found := range selector.FindAllStringSubmatch(target.Expr, -1) {
					row, there := rows[regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(found[1], "")]
					if !there {
						t.Errorf("%s, %s: docs/reference/metrics.md does not list %s", name, p.Title, found[1])
					}
					own := map[string]bool{}
					for _, label := range row.Labels {
						own[label], labels[label] = true, true
					}
					for _, chosen := range regexp.MustCompile(`(\w+)[=!]`).FindAllStringSubmatch(found[2], -1) {
						if !own[chosen[1]] {
							t.Errorf("%s, %s: %s has no label %s", name, p.Title, found[1], chosen[1])
						}
					}
				}
				by := regexp.MustCompile(`(?:by|on) \(([^)]*)\)`).FindAllStringSubmatch(target.Expr, -1)
				by = append(by, regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1)...)
				for _, list := range by {
					for label := range strings.SplitSeq(list[1], ", ") {
						if !labels[label] {
							t.Errorf("%s, %s: no metric of %s has the label %q", name, p.Title, target.Expr, label)
						}
					}
				}
			}
		}
	}
}

func TestChartDashboardsAreUpToDate(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "old.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(folder); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) != 3 {
		t.Fatalf("%q: %v", files, err)
	}
	for _, path := range files {
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("../../charts/breakwater/files/dashboards", filepath.Base(path)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("run make generate, %s differs (-chart +written):\n%s", filepath.Base(path), diff)
		}
		strict := json.NewDecoder(bytes.NewReader(want))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&Dashboard{}); err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
}

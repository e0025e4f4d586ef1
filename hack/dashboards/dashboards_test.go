package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/metrictable"
)

func built(t *testing.T) map[string]dashboard.Dashboard {
	t.Helper()
	built, err := all()
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func TestDocsCallDashboardsByTheirTitles(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## Dashboards\n")
	if !found {
		t.Fatal("docs/reference/metrics.md has no section Dashboards")
	}
	for name, d := range built(t) {
		if title := "**" + *d.Title + "**"; !strings.Contains(section, title) {
			t.Errorf("the section Dashboards of docs/reference/metrics.md does not name %s, the title of %s", title, name)
		}
	}
}

func TestPanelsDoNotOverlap(t *testing.T) {
	for name, d := range built(t) {
		taken, ids := map[[2]uint32]string{}, map[uint32]bool{}
		for _, p := range d.Panels {
			var title string
			var id uint32
			var at dashboard.GridPos
			if p.RowPanel != nil {
				title, id, at = *p.RowPanel.Title, p.RowPanel.Id, *p.RowPanel.GridPos
			} else {
				title, id, at = *p.Panel.Title, *p.Panel.Id, *p.Panel.GridPos
			}
			if title == "" || ids[id] {
				t.Errorf("%s: panel %d (%q) has an ID that another panel has: %v", name, id, title, ids[id])
			}
			ids[id] = true
			if at.W < 1 || at.H < 1 || at.X+at.W > columns {
				t.Errorf("%s: panel %s is outside the grid at %+v", name, title, at)
			}
			for x := at.X; x < at.X+at.W; x++ {
				for y := at.Y; y < at.Y+at.H; y++ {
					if other, overlaps := taken[[2]uint32{x, y}]; overlaps {
						t.Fatalf("%s: panel %s overlaps %s", name, title, other)
					}
					taken[[2]uint32{x, y}] = title
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
	for name, d := range built(t) {
		for _, p := range d.Panels {
			if p.RowPanel != nil {
				continue
			}
			for _, query := range p.Panel.Targets {
				target := query.(prometheus.Dataquery)
				labels := map[string]bool{"instance": true, "job": true, "namespace": true, "le": true}
				for _, found := range selector.FindAllStringSubmatch(target.Expr, -1) {
					row, there := rows[regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(found[1], "")]
					if !there {
						t.Errorf("%s, %s: docs/reference/metrics.md does not list %s", name, *p.Panel.Title, found[1])
					}
					own := map[string]bool{}
					for _, label := range row.Labels {
						own[label], labels[label] = true, true
					}
					for _, chosen := range regexp.MustCompile(`(\w+)[=!]`).FindAllStringSubmatch(found[2], -1) {
						if !own[chosen[1]] {
							t.Errorf("%s, %s: %s has no label %s", name, *p.Panel.Title, found[1], chosen[1])
						}
					}
				}
				by := regexp.MustCompile(`(?:by|on) \(([^)]*)\)`).FindAllStringSubmatch(target.Expr, -1)
				by = append(by, regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(*target.LegendFormat, -1)...)
				for _, list := range by {
					for label := range strings.SplitSeq(list[1], ", ") {
						if !labels[label] {
							t.Errorf("%s, %s: no metric of %s has the label %q", name, *p.Panel.Title, target.Expr, label)
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
	if err != nil || len(files) != 4 {
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
	}
}

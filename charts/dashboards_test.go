package charts_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/metrictable"
)

// dashboard has the parts of a Grafana dashboard that its author can get wrong.
type dashboard struct {
	Title  string
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ H, W, X, Y int }
		Targets []struct{ Expr, LegendFormat string }
	}
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	paths, err := filepath.Glob("breakwater/files/dashboards/*.json")
	if err != nil || len(paths) != 4 {
		t.Fatalf("dashboards %q: %v", paths, err)
	}
	read := map[string]dashboard{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(raw, &d); err != nil || len(d.Panels) == 0 {
			t.Fatalf("%s has %d panels: %v", path, len(d.Panels), err)
		}
		read[filepath.Base(path)] = d
	}
	return read
}

func TestDocsCallDashboardsByTheirTitles(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Dashboards\n")
	for name, d := range dashboards(t) {
		if !strings.Contains(section, "**"+d.Title+"**") {
			t.Errorf("the section Dashboards of docs/reference/metrics.md does not name %q, the title of %s", d.Title, name)
		}
	}
}

func TestPanelsDoNotOverlap(t *testing.T) {
	const columns = 24 // of Grafana's grid
	for name, d := range dashboards(t) {
		taken, ids := map[[2]int]string{}, map[int]string{}
		for _, p := range d.Panels {
			if other, used := ids[p.ID]; used || p.Title == "" {
				t.Errorf("%s: panel %d (%q) has no title, or the ID of %q", name, p.ID, p.Title, other)
			}
			ids[p.ID] = p.Title
			at := p.GridPos
			if at.W < 1 || at.H < 1 || at.X < 0 || at.X+at.W > columns {
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
func TestQueriesOfDashboardsMatchTheMetricsTable(t *testing.T) {
	rows, err := metrictable.Read("../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics := regexp.MustCompile(`\b(breakwater_[a-z_]+)(?:\{([^}]*)\})?`)
	groups := regexp.MustCompile(`(?:by|on) \(([^)]*)\)|\{\{(\w+)\}\}`)
	for name, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, query := range p.Targets {
				labels := map[string]bool{"instance": true, "job": true, "namespace": true, "le": true}
				for _, found := range metrics.FindAllStringSubmatch(query.Expr, -1) {
					row, listed := rows[regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(found[1], "")]
					if !listed {
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
				for _, list := range groups.FindAllStringSubmatch(query.Expr+query.LegendFormat, -1) {
					for label := range strings.SplitSeq(list[1]+list[2], ", ") {
						if !labels[label] {
							t.Errorf("%s, %s: no metric of %s has the label %q", name, p.Title, query.Expr, label)
						}
					}
				}
			}
		}
	}
}

package operate_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/metrictable"
	"github.com/breakwater-k8s/breakwater/e2e/prometheus"
)

// metricsWithoutData are the metrics of those panels that may be empty after a storm on bare pods.
var metricsWithoutData = []string{
	"ALERTS", "breakwater_webhook_nudges_total", "breakwater_scheduling_reviews_total", "breakwater_webhook_handed_over_total",
	"breakwater_webhook_given_back_total", "breakwater_generator_protected_sources", "breakwater_ring_", // no sharder runs there
}

func TestMetricsRulesAndDashboardsShowStorm(t *testing.T) {
	claim(t, "each metric matches the table, each rule is evaluated, and each panel has data", func(l *fixture) {
		m := monitor{prometheus.Start(l, time.Second)}
		const floor = 70
		e2e.FaultStorm{Pods: 120, FloorsByCore: []int{floor}, ExhaustsBudget: true, Protect: func(l *fixture, floor int) {
			l.CreateProtector(floor, func(spec *v1alpha1.PodProtectorSpec) {
				spec.Spread = &v1alpha1.Spread{TopologyKey: v1alpha1.TopologyKeyCell}
				spec.AdmissionHistory.MaxConcurrentLag = 1000
			})
		}}.Run(l)

		web := fmt.Sprintf("{protector=%q}", l.Namespace+"/web")
		m.waitForValue("max(breakwater_protector_floor"+web+")", floor)
		m.waitForValue("max(breakwater_protector_available"+web+")", floor)
		m.waitForValue("min(breakwater_protector_budget"+web+")", 0)
		m.waitForValue("max(breakwater_protector_reservations"+web+")", 0)
		m.waitForValue("max(breakwater_protector_reservation_limit"+web+")", 1000)
		m.waitForValue("sum(breakwater_webhook_core_up) == bool count(breakwater_webhook_core_up)", 1)
		m.waitForValue("max(abs(breakwater_aggregator_cell_clock_ahead_seconds)) < bool 3", 1)
		m.waitForValue("count(sum by (protector) (breakwater_webhook_refusals_total"+web+") > 20)", 1)
		m.waitForValue(`sum(breakwater_cell_condition{condition="AggregationFresh"})`, float64(len(l.Cells)))
		m.expectDocumentedMetrics()
		m.expectHealthyRules()
		for name, dashboard := range dashboards(l) {
			m.expectVariables(name, dashboard)
			m.expectPanels(name, dashboard, l.Namespace+"/web")
		}
	})
}

// expectDocumentedMetrics compares the metrics that all components served with docs/reference/metrics.md.
func (m monitor) expectDocumentedMetrics() {
	m.Helper()
	rows, err := metrictable.Read("../../docs/reference/metrics.md")
	m.Must(err)
	kinds, all := map[string][]struct{ Type string }{}, []map[string]string{}
	m.Must(m.Get("metadata", url.Values{}, &kinds))
	m.Must(m.Get("series", url.Values{"match[]": {`{__name__=~"breakwater_.+"}`}}, &all))
	complaints, seen := map[string]bool{}, map[string]bool{}
	for _, one := range all {
		name := one["__name__"]
		if len(kinds[name]) == 0 {
			name = regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(name, "")
		}
		var labels []string
		for label := range one {
			if !slices.Contains([]string{"__name__", "instance", "job", "le"}, label) {
				labels = append(labels, label)
			}
		}
		row, documented := rows[name]
		switch {
		case !documented:
			complaints[name+" is served but not in the table"] = true
		case len(kinds[name]) != 1:
			complaints[fmt.Sprintf("%s has the types %v, want one type", name, kinds[name])] = true
		default:
			for _, complaint := range row.Differences(kinds[name][0].Type, labels) {
				complaints[complaint] = true
			}
		}
		seen[name] = true
	}
	for complaint := range complaints {
		m.Error(complaint)
	}
	if len(seen) < 40 {
		m.Errorf("only %d families are served: %v", len(seen), seen)
	}
}

// dashboard has the variables and queries of a Grafana dashboard.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

func dashboards(l *fixture) map[string]dashboard {
	l.Helper()
	paths, err := filepath.Glob("../../charts/breakwater/files/dashboards/*.json")
	l.Must(err)
	all := map[string]dashboard{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		l.Must(err)
		var d dashboard
		l.Must(json.Unmarshal(raw, &d))
		all[filepath.Base(path)] = d
	}
	if len(all) != 4 {
		l.Fatalf("dashboards %v", paths)
	}
	return all
}

// expectVariables checks that each query variable of a dashboard has values.
func (m monitor) expectVariables(name string, d dashboard) {
	m.Helper()
	for _, v := range d.Templating.List {
		if v.Type != "query" || strings.Contains(v.Query, "breakwater_ring_") {
			continue
		}
		parts := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(v.Query)
		var values []string
		if parts == nil || m.Get("label/"+parts[2]+"/values", url.Values{"match[]": {parts[1]}}, &values) != nil || len(values) == 0 {
			m.Errorf("%s: the variable %s has the values %q by %s", name, v.Name, values, v.Query)
		}
	}
}

// expectPanels checks that Prometheus can evaluate each query of each panel, and that the result is not empty except for metricsWithoutData.
func (m monitor) expectPanels(name string, d dashboard, protector string) {
	m.Helper()
	asked := 0
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			expression := strings.NewReplacer("$__rate_interval", "10s", "$cell", ".*", "$core", ".*", "$ring", ".*", "$protector", protector).Replace(target.Expr)
			found, err := m.QueryRange(expression)
			switch {
			case err != nil:
				m.Errorf("%s, %s: %s: %v", name, panel.Title, expression, err)
			case len(found) == 0 && !slices.ContainsFunc(metricsWithoutData, func(metric string) bool { return strings.Contains(expression, metric) }):
				m.Errorf("%s, %s is empty: %s", name, panel.Title, expression)
			}
			asked++
		}
	}
	if asked < 8 {
		m.Errorf("%s has %d queries", name, asked)
	}
}

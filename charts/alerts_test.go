package charts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/metrictable"
)

// ruleTests say what the rules do, as promtool reads it.
const ruleTests = "rules/alerts.yaml"

// groups are the rules of a release in which every component runs, with the thresholds that the chart has by itself.
func groups(t *testing.T, arguments ...string) []monitoringv1.RuleGroup {
	t.Helper()
	arguments = append([]string{"--set", "metrics.prometheusRule.enabled=true"}, arguments...)
	rules := typed[monitoringv1.PrometheusRule](t, render(t, arguments...), "PrometheusRule")
	if len(rules) != 1 {
		t.Fatalf("%d PrometheusRules", len(rules))
	}
	return rules[0].Spec.Groups
}

// everywhere is what makes a release a core that has it all.
var everywhere = []string{"--set", "cells[0].name=here,sharder.enabled=true"}

func alerts(t *testing.T, arguments ...string) map[string]monitoringv1.Rule {
	t.Helper()
	all := map[string]monitoringv1.Rule{}
	for _, group := range groups(t, arguments...) {
		for _, rule := range group.Rules {
			if _, twice := all[rule.Alert]; rule.Alert != "" && twice {
				t.Errorf("there are two of %s", rule.Alert)
			}
			if rule.Alert != "" {
				all[rule.Alert] = rule
			}
		}
	}
	return all
}

func TestAlertsFireWhenTheyShould(t *testing.T) {
	of := groups(t, everywhere...)
	dir := t.TempDir()
	write := func(name string, content any) {
		raw, err := yaml.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("whole.yaml", map[string]any{"groups": of})
	for _, group := range of {
		for i := range group.Rules { // what is always the same need not be repeated in the tests
			delete(group.Rules[i].Annotations, "description")
			delete(group.Rules[i].Annotations, "runbook_url")
		}
	}
	write("rules.yaml", map[string]any{"groups": of})
	raw, err := os.ReadFile(ruleTests)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tests.yaml"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "whole.yaml"}, {"test", "rules", "tests.yaml"}} {
		command := exec.CommandContext(t.Context(), tool(t, "promtool"), arguments...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, out)
		}
	}
}

// ruleTest is the part of promtool's format that says which alerts are tested, and when.
type ruleTest struct {
	Name          string `json:"name"`
	AlertRuleTest []struct {
		Alertname string                `json:"alertname"`
		EvalTime  monitoringv1.Duration `json:"eval_time"`
		ExpAlerts []any                 `json:"exp_alerts"`
	} `json:"alert_rule_test"`
}

func TestEachAlertIsSeenQuietFiringAndOver(t *testing.T) {
	raw, err := os.ReadFile(ruleTests)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []ruleTest `json:"tests"`
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, test := range file.Tests {
		var course []string
		last := time.Duration(0)
		for _, look := range test.AlertRuleTest {
			at, err := time.ParseDuration(string(look.EvalTime))
			if err != nil || look.Alertname != test.Name || at <= last {
				t.Errorf("%s is looked at as %s at %s, after %s: %v", test.Name, look.Alertname, look.EvalTime, last, err)
			}
			last = at
			course = append(course, map[bool]string{true: "firing", false: "quiet"}[len(look.ExpAlerts) > 0])
		}
		if !slices.Equal(course, []string{"quiet", "firing", "quiet"}) {
			t.Errorf("%s is seen %q, want it quiet, firing and quiet", test.Name, course)
		}
		seen[test.Name] = true
	}
	for name := range alerts(t, everywhere...) {
		if !seen[name] {
			t.Errorf("%s has no test in %s", name, ruleTests)
		}
	}
}

func TestAlertsSayWhatToDo(t *testing.T) {
	for name, rule := range alerts(t, append(everywhere, "--set", "metrics.prometheusRule.runbookURL=https://wiki.example/runbooks/")...) {
		page := regexp.MustCompile("([a-z])([A-Z])").ReplaceAllString(strings.TrimPrefix(name, "Breakwater"), "$1-$2")
		if want := "https://wiki.example/runbooks/" + strings.ToLower(page) + ".md"; rule.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook %q, want %q", name, rule.Annotations["runbook_url"], want)
		}
		if summary := rule.Annotations["summary"]; len(summary) < 20 || !strings.HasSuffix(summary, ".") {
			t.Errorf("%s: summary %q", name, summary)
		}
		if description := rule.Annotations["description"]; len(description) < 20 || strings.Contains(description, "{{") {
			t.Errorf("%s: description %q: want one, and the same for all", name, description)
		}
		last := map[string]monitoringv1.Duration{"critical": "2m", "warning": "5m"}[rule.Labels["severity"]]
		if rule.For == nil || *rule.For != last || last == "" {
			t.Errorf("%s: severity %q, for %v, want %q", name, rule.Labels["severity"], rule.For, last)
		}
	}
}

func TestAlertsGoByTheThresholdsOfTheRelease(t *testing.T) {
	of := alerts(t, append(everywhere, "--set", "metrics.prometheusRule.thresholds.certificateSeconds=86400,metrics.prometheusRule.thresholds.clockSeconds=30",
		"--set", "metrics.prometheusRule.for=7m,metrics.prometheusRule.forCritical=1m")...)
	for name, want := range map[string]string{"BreakwaterCertificateExpiring": " < 86400", "BreakwaterClockSkew": " > 30", "BreakwaterReservationsNotSettled": " > 600"} {
		if rule := of[name]; !strings.HasSuffix(rule.Expr.StrVal, want) || *rule.For != "7m" {
			t.Errorf("%s: %s for %s, want it to end %q, for 7m", name, rule.Expr.StrVal, *rule.For, want)
		}
	}
	if *of["BreakwaterCoreDown"].For != "1m" {
		t.Errorf("BreakwaterCoreDown for %s", *of["BreakwaterCoreDown"].For)
	}
}

// What is absent where it should be is no alert.
func TestAlertsOnAbsenceAreOfWhatTheReleaseRuns(t *testing.T) {
	worker := alerts(t, "--values", "breakwater/ci/worker.yaml")
	for name, want := range map[string]bool{
		"BreakwaterWebhookDown": true, "BreakwaterGeneratorDown": false, "BreakwaterTopologyDown": false, "BreakwaterSharderDown": false, "BreakwaterCoreDown": true,
	} {
		if _, there := worker[name]; there != want {
			t.Errorf("a worker has %s: %v, want %v", name, there, want)
		}
	}
	bare := alerts(t, append(everywhere, "--set", "generator.enabled=false")...)
	if _, there := bare["BreakwaterGeneratorDown"]; there || len(bare) < len(worker) {
		t.Errorf("a core without a generator has %d alerts, also one that there is none: %v", len(bare), there)
	}
}

// The column of alerts in docs/metrics.md is what the alerts go by, and they go by metrics that there are.
func TestTheTableOfMetricsNamesTheAlerts(t *testing.T) {
	rows, err := metrictable.Read("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	goesBy := map[string][]string{}
	for name, rule := range alerts(t, everywhere...) {
		for _, metric := range metricsIn(rule.Expr.StrVal) {
			if _, there := rows[metric]; !there {
				t.Errorf("%s goes by %s, which docs/metrics.md does not have", name, metric)
			}
			goesBy[metric] = append(goesBy[metric], name)
		}
	}
	for name, row := range rows {
		slices.Sort(goesBy[name])
		slices.Sort(row.Alerts)
		if !slices.Equal(slices.Compact(goesBy[name]), row.Alerts) {
			t.Errorf("docs/metrics.md says that %q go by %s, and it is %q", row.Alerts, name, goesBy[name])
		}
	}
}

func TestTheTableOfAlertsIsWhole(t *testing.T) {
	raw, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\| (critical|warning) \\|").FindAllStringSubmatch(string(raw), -1) {
		told["Breakwater"+row[1]] = row[2]
	}
	severities := map[string]string{}
	for name, rule := range alerts(t, everywhere...) {
		severities[name] = rule.Labels["severity"]
	}
	if diff := cmp.Diff(severities, told); diff != "" {
		t.Errorf("the table in docs/metrics.md (-alerts +table):\n%s", diff)
	}
	for _, group := range groups(t, everywhere...) {
		for _, rule := range group.Rules {
			if rule.Record != "" && !strings.Contains(string(raw), "`"+rule.Record+"`") {
				t.Errorf("docs/metrics.md does not have %s", rule.Record)
			}
		}
	}
}

// metricsIn are those of Breakwater that an expression asks for, as families.
func metricsIn(expression string) []string {
	var all []string
	for _, name := range regexp.MustCompile(`\bbreakwater_[a-z_]+`).FindAllString(expression, -1) {
		all = append(all, regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(name, ""))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

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

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e/harness/metrictable"
)

// ruleTests is promtool's test file for the alert rules.
const ruleTests = "rules/alerts.yaml"

// ruleGroups returns the rules of a release in which every component runs, with the chart's default thresholds.
func ruleGroups(t *testing.T, arguments ...string) []monitoringv1.RuleGroup {
	t.Helper()
	arguments = append([]string{"--set", "metrics.prometheusRule.enabled=true"}, arguments...)
	rules := objectsOfKind[monitoringv1.PrometheusRule](t, render(t, arguments...), "PrometheusRule")
	if len(rules) != 1 {
		t.Fatalf("%d PrometheusRules", len(rules))
	}
	return rules[0].Spec.Groups
}

// fullRelease are the values of a core in which every component runs.
var fullRelease = []string{"--set", "cells[0].name=here,sharder.enabled=true,node.enabled=true"}

func alerts(t *testing.T, arguments ...string) map[string]monitoringv1.Rule {
	t.Helper()
	all := map[string]monitoringv1.Rule{}
	for _, group := range ruleGroups(t, arguments...) {
		for _, rule := range group.Rules {
			if _, twice := all[rule.Alert]; rule.Alert != "" && twice {
				t.Errorf("alert %s is defined twice", rule.Alert)
			}
			if rule.Alert != "" {
				all[rule.Alert] = rule
			}
		}
	}
	return all
}

func TestAlertsFireWhenTheyShould(t *testing.T) {
	of := ruleGroups(t, fullRelease...)
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
		for i := range group.Rules { // these annotations are constant, so the tests leave them out
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
		command := exec.CommandContext(t.Context(), toolPath(t, "promtool"), arguments...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, out)
		}
	}
}

// ruleTest is the part of promtool's format with the tested alerts and times.
type ruleTest struct {
	Name          string `json:"name"`
	AlertRuleTest []struct {
		Alertname string                `json:"alertname"`
		EvalTime  monitoringv1.Duration `json:"eval_time"`
		ExpAlerts []any                 `json:"exp_alerts"`
	} `json:"alert_rule_test"`
}

func TestEveryAlertIsTestedBeforeDuringAndAfterTheFault(t *testing.T) {
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
	tested := map[string]bool{}
	for _, test := range file.Tests {
		var states []string
		last := time.Duration(0)
		for _, evaluation := range test.AlertRuleTest {
			at, err := time.ParseDuration(string(evaluation.EvalTime))
			if err != nil || evaluation.Alertname != test.Name || at <= last {
				t.Errorf("test %s checks alert %s at %s, after %s: %v", test.Name, evaluation.Alertname, evaluation.EvalTime, last, err)
			}
			last = at
			states = append(states, map[bool]string{true: "firing", false: "quiet"}[len(evaluation.ExpAlerts) > 0])
		}
		if states = slices.Compact(states); len(states) < 3 || states[0] != "quiet" || states[len(states)-1] != "quiet" {
			t.Errorf("test %s checks the alert %q, want quiet, firing, quiet", test.Name, states)
		}
		tested[test.Name] = true
	}
	for name := range alerts(t, fullRelease...) {
		if !tested[name] {
			t.Errorf("%s has no test in %s", name, ruleTests)
		}
	}
}

func TestAlertsHaveRunbookSummaryAndDescription(t *testing.T) {
	for name, rule := range alerts(t, append(fullRelease, "--set", "metrics.prometheusRule.runbookURL=https://wiki.example/runbooks/")...) {
		page := regexp.MustCompile("([a-z])([A-Z])").ReplaceAllString(strings.TrimPrefix(name, "Breakwater"), "$1-$2")
		if want := "https://wiki.example/runbooks/" + strings.ToLower(page) + ".md"; rule.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook %q, want %q", name, rule.Annotations["runbook_url"], want)
		}
		if summary := rule.Annotations["summary"]; len(summary) < 20 || !strings.HasSuffix(summary, ".") {
			t.Errorf("%s: summary %q, want a sentence", name, summary)
		}
		if description := rule.Annotations["description"]; len(description) < 20 || strings.Contains(description, "{{") {
			t.Errorf("%s: description %q, want a sentence without template variables", name, description)
		}
		last := map[string]monitoringv1.Duration{"critical": "2m", "warning": "5m"}[rule.Labels["severity"]]
		if rule.For == nil || *rule.For != last || last == "" {
			t.Errorf("%s: severity %q with for %v, want for %q", name, rule.Labels["severity"], rule.For, last)
		}
	}
}

func TestAlertsUseTheThresholdsOfTheRelease(t *testing.T) {
	of := alerts(t, append(fullRelease, "--set", "metrics.prometheusRule.thresholds.certificateSeconds=86400,metrics.prometheusRule.thresholds.clockSeconds=30",
		"--set", "metrics.prometheusRule.for=7m,metrics.prometheusRule.forCritical=1m")...)
	for name, want := range map[string]string{"BreakwaterCertificateExpiring": " < 86400", "BreakwaterClockSkew": " > 30", "BreakwaterReservationsNotSettled": " > 600"} {
		if rule := of[name]; !strings.HasSuffix(rule.Expr.StrVal, want) || *rule.For != "7m" {
			t.Errorf("%s: expression %s for %s, want one that ends with %q, for 7m", name, rule.Expr.StrVal, *rule.For, want)
		}
	}
	if *of["BreakwaterCoreDown"].For != "1m" {
		t.Errorf("BreakwaterCoreDown has for %s, want 1m", *of["BreakwaterCoreDown"].For)
	}
}

// A component that the release does not run must not raise an alert by its absence.
func TestAbsenceAlertsCoverOnlyComponentsOfTheRelease(t *testing.T) {
	worker := alerts(t, "--values", "breakwater/ci/worker.yaml")
	for name, want := range map[string]bool{
		"BreakwaterWebhookDown": true, "BreakwaterGeneratorDown": false, "BreakwaterTopologyDown": false, "BreakwaterSharderDown": false, "BreakwaterCoreDown": true, "BreakwaterNodeGuardDown": false,
	} {
		if _, found := worker[name]; found != want {
			t.Errorf("a worker has alert %s: got %v, want %v", name, found, want)
		}
	}
	if _, found := alerts(t, "--values", "breakwater/ci/node.yaml")["BreakwaterNodeGuardDown"]; !found {
		t.Error("a worker with node guards has no alert BreakwaterNodeGuardDown")
	}
	withoutGenerator := alerts(t, append(fullRelease, "--set", "generator.enabled=false")...)
	if _, found := withoutGenerator["BreakwaterGeneratorDown"]; found || len(withoutGenerator) < len(worker) {
		t.Errorf("a core without a generator has %d alerts, with BreakwaterGeneratorDown: %v, want false", len(withoutGenerator), found)
	}
}

// The column of alerts in docs/reference/metrics.md lists the alerts that use each metric, and alerts use only existing metrics.
func TestMetricsTableListsAlerts(t *testing.T) {
	rows, err := metrictable.Read("../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	alertsByMetric := map[string][]string{}
	for name, rule := range alerts(t, fullRelease...) {
		for _, metric := range metricsIn(rule.Expr.StrVal) {
			if _, found := rows[metric]; !found {
				t.Errorf("alert %s uses metric %s, which docs/reference/metrics.md does not list", name, metric)
			}
			alertsByMetric[metric] = append(alertsByMetric[metric], name)
		}
	}
	for name, row := range rows {
		slices.Sort(alertsByMetric[name])
		slices.Sort(row.Alerts)
		if !slices.Equal(slices.Compact(alertsByMetric[name]), row.Alerts) {
			t.Errorf("docs/reference/metrics.md lists alerts %q for metric %s, want %q", row.Alerts, name, alertsByMetric[name])
		}
	}
}

func TestRecordingRulesAreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range ruleGroups(t, fullRelease...) {
		for _, rule := range group.Rules {
			if rule.Record != "" && !strings.Contains(string(raw), "`"+rule.Record+"`") {
				t.Errorf("docs/reference/metrics.md does not list recording rule %s", rule.Record)
			}
		}
	}
}

// metricsIn returns the metric families of Breakwater that an expression uses.
func metricsIn(expression string) []string {
	var all []string
	for _, name := range regexp.MustCompile(`\bbreakwater_[a-z_]+`).FindAllString(expression, -1) {
		all = append(all, regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(name, ""))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

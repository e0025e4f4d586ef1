package prometheus

import (
	"net/url"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
)

// Rule is a rule as Prometheus returns it.
type Rule struct {
	Name, Health, LastError, State string
}

// IsActive reports whether the expression of an alert is true, regardless of its "for" duration. It is false for a recording rule.
func (r Rule) IsActive() bool { return r.State != "" && r.State != "inactive" }

// Rules returns all rules of Prometheus.
func (p *Prometheus) Rules() ([]Rule, error) {
	var data struct {
		Groups []struct{ Rules []Rule }
	}
	if err := p.Get("rules", url.Values{}, &data); err != nil {
		return nil, err
	}
	var all []Rule
	for _, group := range data.Groups {
		all = append(all, group.Rules...)
	}
	return all, nil
}

// ruleGroups returns the rules of the chart, rendered with the values in the syntax of --set.
func ruleGroups(l *e2e.Fixture, values ...string) []any {
	l.Helper()
	values = append([]string{"cells[0].name=worker-1", "metrics.prometheusRule.enabled=true"}, values...)
	helm, err := release.Helm(l.Context(), l.TempDir(), "template", "breakwater", "../../charts/breakwater", "--show-only=templates/metrics.yaml",
		"--set="+strings.Join(values, ","))
	l.Must(err)
	out, err := helm.Output()
	l.Must(err)
	_, text, _ := strings.Cut(string(out), "kind: PrometheusRule")
	var rule struct {
		Spec struct {
			Groups []any `json:"groups"`
		} `json:"spec"`
	}
	l.Must(yaml.Unmarshal([]byte(text), &rule))
	if len(rule.Spec.Groups) == 0 {
		l.Fatalf("the chart has no rules:\n%s", out)
	}
	return rule.Spec.Groups
}

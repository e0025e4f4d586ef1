package operate_test

import (
	"net/url"
	"os/exec"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/internal/federation/local"
)

// ruleGroups are the rules of the chart.
func ruleGroups(l *lab) []any {
	l.Helper()
	helm, err := local.BuiltProgram("helm")
	l.Must(err)
	command := exec.CommandContext(l.Context(), helm, "template", "breakwater", "../../charts/breakwater", "--show-only=templates/metrics.yaml",
		"--set=cells[0].name=worker-1,metrics.prometheusRule.enabled=true")
	home := l.TempDir()
	command.Env = []string{"HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_CACHE_HOME=" + home, "HELM_DATA_HOME=" + home}
	out, err := command.Output()
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

// ruled is a rule as Prometheus has it.
type ruled struct {
	Name, Health, LastError, State string
}

func (p *prometheus) rules() map[string]ruled {
	p.Helper()
	var data struct {
		Groups []struct{ Rules []ruled }
	}
	p.Must(p.get("rules", url.Values{}, &data))
	all := map[string]ruled{}
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			all[rule.Name] = rule
		}
	}
	return all
}

// wantRules checks that all rules can be reckoned, and that no alert fires that is not told of.
func (p *prometheus) wantRules(firing ...string) {
	p.Helper()
	p.Eventually(func() string {
		for _, rule := range p.rules() {
			if rule.Health == "unknown" {
				return rule.Name + " was not reckoned yet"
			}
		}
		return ""
	})
	rules := p.rules()
	for _, rule := range rules {
		if rule.Health != "ok" || rule.LastError != "" {
			p.Errorf("rule %s: %s %s", rule.Name, rule.Health, rule.LastError)
		}
		if rule.State != "" && rule.State != "inactive" && !contains(firing, rule.Name) {
			p.Errorf("%s is %s", rule.Name, rule.State)
		}
	}
	if len(rules) < 25 {
		p.Errorf("%d rules: %v", len(rules), rules)
	}
}

package runbooks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/internal/federation/local"
	"github.com/breakwater-k8s/breakwater/internal/install"
)

// scrapeEvery is how often Prometheus looks, and reckons the alerts anew.
const scrapeEvery = "500ms"

// prometheus is a real one that scrapes all components, and has the alerts of the chart.
type prometheus struct {
	address string
	cancel  context.CancelFunc
	command *exec.Cmd
}

func startPrometheus(l *lab) *prometheus {
	l.Helper()
	program, err := local.BuiltProgram("prometheus")
	l.Must(err)
	address, err := install.FreeAddress()
	l.Must(err)
	var targets []string
	for _, target := range suite.Breakwater.MetricsAddresses() {
		targets = append(targets, target)
	}
	write := func(name string, content any) string {
		raw, err := yaml.Marshal(content)
		l.Must(err)
		path := filepath.Join(suite.Dir(), name)
		l.Must(os.WriteFile(path, raw, 0o600))
		return path
	}
	rules := write("rules.yaml", map[string]any{"groups": ruleGroups(l)})
	configuration := write("prometheus.yaml", map[string]any{
		"global":         map[string]any{"scrape_interval": scrapeEvery, "scrape_timeout": scrapeEvery, "evaluation_interval": scrapeEvery},
		"rule_files":     []string{rules},
		"scrape_configs": []any{map[string]any{"job_name": "breakwater", "static_configs": []any{map[string]any{"targets": targets}}}},
	})
	ctx, cancel := context.WithCancel(context.Background())
	p := &prometheus{address: address, cancel: cancel}
	p.command = exec.CommandContext(ctx, program, "--config.file="+configuration, "--storage.tsdb.path="+filepath.Join(suite.Dir(), "prometheus"),
		"--web.listen-address="+address, "--log.level=error")
	l.Must(p.command.Start())
	return p
}

func (p *prometheus) stop() {
	if p != nil {
		p.cancel()
		_ = p.command.Wait() // it was killed
	}
}

// ruleGroups are the alerts of the chart, with a threshold that a test can wait for.
func ruleGroups(l *lab) []any {
	l.Helper()
	helm, err := local.BuiltProgram("helm")
	l.Must(err)
	command := exec.CommandContext(l.Context(), helm, "template", "breakwater", root+"/charts/breakwater", "--show-only=templates/metrics.yaml",
		"--set=cells[0].name=worker-1,metrics.prometheusRule.enabled=true,metrics.prometheusRule.thresholds.reservationSeconds=3")
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

// active are the alerts whose expressions are true, for however long.
func (p *prometheus) active() ([]string, error) {
	client := &http.Client{Timeout: 5 * time.Second}
	response, err := client.Get("http://" + p.address + "/api/v1/rules?type=alert")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, State, Health, LastError string }
			}
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	active := []string{}
	for _, group := range answer.Data.Groups {
		for _, rule := range group.Rules {
			switch {
			case rule.Health != "ok":
				return nil, fmt.Errorf("%s is %s %s", rule.Name, rule.Health, rule.LastError)
			case rule.State != "inactive":
				active = append(active, rule.Name)
			}
		}
	}
	if len(answer.Data.Groups) == 0 {
		return nil, errors.New("there are no rules")
	}
	return active, nil
}

// await waits until an alert is active, or is not.
func (p *prometheus) await(t *testing.T, alert string, want bool) {
	t.Helper()
	deadline := time.Now().Add(45 * time.Second)
	for {
		active, err := p.active()
		if err == nil && slices.Contains(active, alert) == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is active: %v, want %v: active are %q, %v", alert, !want, want, active, err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

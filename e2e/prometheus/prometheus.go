// Package prometheus runs a real Prometheus that scrapes all components of Breakwater and evaluates the rules of the chart.
package prometheus

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// Prometheus is a running Prometheus. It stops at the end of the test.
type Prometheus struct {
	*e2e.Fixture
	address   string
	interval  time.Duration
	startedAt time.Time
}

// Start starts Prometheus, and returns when it has scraped all running components. It scrapes them and evaluates its rules at the interval.
// values are values of the chart in the syntax of --set. Call it from a package two folders below the repository's root.
func Start(l *e2e.Fixture, interval time.Duration, values ...string) *Prometheus {
	l.Helper()
	program, err := local.BuiltProgram("prometheus")
	l.Must(err)
	address := testplane.FreeAddress(l)
	dir := l.TempDir()
	var targets []string
	for _, target := range l.Breakwater.MetricsAddresses() {
		targets = append(targets, target)
	}
	write := func(name string, content any) {
		raw, err := yaml.Marshal(content)
		l.Must(err)
		l.Must(os.WriteFile(filepath.Join(dir, name), raw, 0o600))
	}
	write("rules.yaml", map[string]any{"groups": ruleGroups(l, values...)})
	write("prometheus.yaml", map[string]any{
		"global":         map[string]any{"scrape_interval": interval.String(), "scrape_timeout": interval.String(), "evaluation_interval": interval.String()},
		"rule_files":     []string{"rules.yaml"},
		"scrape_configs": []any{map[string]any{"job_name": "breakwater", "static_configs": []any{map[string]any{"targets": targets}}}},
	})
	log, err := os.Create(filepath.Join(dir, "log"))
	l.Must(err)
	ctx, stop := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	command.Stdout, command.Stderr = log, log
	l.Must(command.Start())
	l.Cleanup(func() {
		stop()
		_ = command.Wait() // it was killed
		log.Close()
		if raw, err := os.ReadFile(log.Name()); l.Failed() && err == nil {
			l.Logf("Prometheus: %s", raw)
		}
	})
	p := &Prometheus{Fixture: l, address: address, interval: interval, startedAt: time.Now()}
	l.Eventually(func() string {
		up, err := p.Query(`count(up == 1)`)
		if err != nil || len(up) != 1 || up[0].Float() != float64(len(targets)) {
			return fmt.Sprintf("want %d targets scraped by Prometheus, got %+v: %v", len(targets), up, err)
		}
		return ""
	})
	return p
}

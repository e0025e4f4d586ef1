package operate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/internal/federation/local"
	"github.com/breakwater-k8s/breakwater/internal/install"
)

// scrapeEvery is how often the Prometheus of a test looks at the components, and reckons its rules anew.
const scrapeEvery = time.Second

// prometheus is a real one, of a test's own.
type prometheus struct {
	*lab
	address string
	began   time.Time
}

// series is one of an answer.
type series struct {
	Metric map[string]string   `json:"metric"`
	Values [][2]any            `json:"values"`
	Value  *[2]json.RawMessage `json:"value"`
}

// startPrometheus runs one that scrapes all components of Breakwater and has the rules of the chart.
func startPrometheus(l *lab) *prometheus {
	l.Helper()
	program, err := local.BuiltProgram("prometheus")
	l.Must(err)
	address, err := install.FreeAddress()
	l.Must(err)
	dir := l.TempDir()
	var targets []string
	for _, target := range operate.Breakwater.MetricsAddresses() {
		targets = append(targets, target)
	}
	config, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": scrapeEvery.String(), "scrape_timeout": scrapeEvery.String(), "evaluation_interval": scrapeEvery.String()},
		"rule_files": []string{"rules.yaml"},
		"scrape_configs": []any{map[string]any{
			"job_name": "breakwater", "static_configs": []any{map[string]any{"targets": targets}},
		}},
	})
	l.Must(err)
	rules, err := yaml.Marshal(map[string]any{"groups": ruleGroups(l)})
	l.Must(err)
	l.Must(os.WriteFile(filepath.Join(dir, "prometheus.yaml"), config, 0o600))
	l.Must(os.WriteFile(filepath.Join(dir, "rules.yaml"), rules, 0o600))
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
	p := &prometheus{lab: l, address: address, began: time.Now()}
	l.Eventually(func() string {
		up, err := p.query(`count(up == 1)`)
		if err != nil || len(up) != 1 || number(up[0]) != float64(len(targets)) {
			return fmt.Sprintf("of %d targets Prometheus has scraped %+v: %v", len(targets), up, err)
		}
		return ""
	})
	return p
}

// number is the value of an instant.
func number(s series) float64 {
	text := ""
	if s.Value == nil || json.Unmarshal(s.Value[1], &text) != nil {
		return math.NaN()
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return value
}

// get asks for something of the API.
func (p *prometheus) get(path string, parameters url.Values, into any) error {
	request, err := http.NewRequestWithContext(p.Context(), http.MethodGet, "http://"+p.address+"/api/v1/"+path+"?"+parameters.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
		Warnings      []string
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", response.Status, err)
	}
	if answer.Status != "success" || len(answer.Warnings) > 0 {
		return fmt.Errorf("%s: %s %q", response.Status, answer.Error, answer.Warnings)
	}
	return json.Unmarshal(answer.Data, into)
}

// query asks for what is now.
func (p *prometheus) query(expression string) ([]series, error) {
	var data struct{ Result []series }
	err := p.get("query", url.Values{"query": {expression}}, &data)
	return data.Result, err
}

// history asks for all that was since Prometheus began, and for a second more: what was scraped last is in it then.
func (p *prometheus) history(expression string) ([]series, error) {
	var data struct{ Result []series }
	at := func(t time.Time) string { return strconv.FormatInt(t.UnixMilli()/1000, 10) }
	err := p.get("query_range", url.Values{
		"query": {expression}, "start": {at(p.began)}, "end": {at(time.Now().Add(time.Second))}, "step": {scrapeEvery.String()},
	}, &data)
	return data.Result, err
}

// want waits until an expression is a number.
func (p *prometheus) want(expression string, want float64) {
	p.Helper()
	p.Eventually(func() string {
		now, err := p.query(expression)
		if err != nil || len(now) != 1 || number(now[0]) != want {
			return fmt.Sprintf("%s is %+v, want %v: %v", expression, now, want, e2e.Word(err))
		}
		return ""
	})
}

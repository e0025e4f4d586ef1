package metrictable

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// A test of each component compares its rows with the metrics that it registers. These are the prefixes that those tests cover.
func TestEachRowBelongsToAComponentThatIsTested(t *testing.T) {
	rows, err := Read("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	tested := []string{"aggregator_", "build_info", "cell_", "certificates_", "console_", "generator_", "node_", "protector_", "protectors", "ring_", "rootguard_", "scheduling_", "trace_", "webhook_"}
	for name := range rows {
		if !slices.ContainsFunc(tested, func(prefix string) bool { return strings.HasPrefix(name, "breakwater_"+prefix) }) {
			t.Errorf("no test compares %s with what there is", name)
		}
	}
	if len(rows) < 50 {
		t.Errorf("%d rows", len(rows))
	}
}

func TestReadRows(t *testing.T) {
	for line, want := range map[string]Row{
		"| `breakwater_a_total` | counter | `cell` (`x` for; all); `way`: `wake`, `evict` | what | `Down`, `Up` |": {},
		"| `breakwater_a_total` | counter | `cell` (`x` for all); `way`: `wake`, `evict` | what | `Down`, `Up` |": {
			Name: "breakwater_a_total", Kind: "counter", Labels: []string{"cell", "way"},
			Text: "`cell` (`x` for all); `way`: `wake`, `evict` what", Alerts: []string{"BreakwaterDown", "BreakwaterUp"},
		},
		"| `breakwater_b` | gauge | | what | |": {Name: "breakwater_b", Kind: "gauge", Text: " what"},
		"| `breakwater_b` | meter | | what | |": {},
		"| `breakwater_b` | gauge | | what |":   {},
	} {
		path := filepath.Join(t.TempDir(), "metrics.md")
		if err := os.WriteFile(path, []byte("# Metrics\n\n"+line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		rows, err := Read(path)
		if (err == nil) != (want.Name != "") {
			t.Errorf("%s: error %v", line, err)
		}
		if diff := cmp.Diff(want, rows[want.Name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestDifferencesAreReported(t *testing.T) {
	r := NewRecordingRegistry()
	r.MustRegister(
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "same", ConstLabels: prometheus.Labels{"a": "1"}}),
		prometheus.NewCounterVec(prometheus.CounterOpts{Name: "labels"}, []string{"b", "c"}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "kind"}, func() float64 { return 0 }),
		prometheus.NewCounter(prometheus.CounterOpts{Name: "unknown"}),
	)
	got := r.Differences(map[string]Row{
		"same":   {Name: "same", Kind: "gauge", Labels: []string{"a"}},
		"labels": {Name: "labels", Kind: "counter", Labels: []string{"b"}},
		"kind":   {Name: "kind", Kind: "counter"},
		"gone":   {Name: "gone", Kind: "gauge"},
		"other":  {Name: "other", Kind: "gauge"},
	}, func(name string) bool { return name != "other" })
	want := []string{
		"gone is in the table, and is not registered", "kind is a gauge, and a counter in the table",
		`labels has the labels ["b" "c"], and in the table ["b"]`, "unknown is not in the table",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("complaints (-want +got):\n%s", diff)
	}
}

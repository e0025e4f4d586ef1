package prometheus_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/console/prometheus"
)

// startPrometheus starts a Prometheus with the metrics of a text in OpenMetrics format, and returns its URL.
func startPrometheus(t *testing.T, metrics string) string {
	t.Helper()
	program, err := local.BuiltProgram("prometheus")
	if err != nil {
		t.Fatal(err)
	}
	folder, address := t.TempDir(), testplane.FreeAddress(t)
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	data := filepath.Join(folder, "data")
	fill := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(program), "promtool"), "tsdb", "create-blocks-from", "openmetrics", write("metrics", metrics), data)
	if output, err := fill.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	ctx, stop := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, "--config.file="+write("prometheus.yaml", "{}"), "--storage.tsdb.path="+data, "--web.listen-address="+address)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = command.Wait() // it was killed
	})
	return "http://" + address
}

func TestPointsFromPrometheus(t *testing.T) {
	end := time.Now().Add(-3 * time.Hour).Truncate(time.Hour)
	var metrics strings.Builder
	series := func(name, labels string, value func(minute int) float64) {
		fmt.Fprintf(&metrics, "# TYPE %s gauge\n", name)
		for _, core := range []string{"east", "west"} {
			for minute := range 60 {
				if minute >= 20 && minute < 40 { // Prometheus was not running
					continue
				}
				n := value(minute)
				if core == "west" {
					n += 50
				}
				fmt.Fprintf(&metrics, "%s{protector=\"shop/web\",%s=\"%s\"} %g %d\n", name, labels, core, n, end.Add(time.Duration(minute-60)*time.Minute).Unix())
			}
		}
	}
	series("breakwater_protector_available", "cluster", func(minute int) float64 { return float64(12 - minute/50) })
	series("breakwater_protector_floor", "cluster", func(int) float64 { return 10 })
	series("breakwater_protector_reservations", "cluster", func(int) float64 { return 1 })
	series("breakwater_webhook_refusals_total", "core", func(minute int) float64 { return float64(minute / 45 * 7) })
	metrics.WriteString("# EOF\n")
	options := prometheus.Options{URL: startPrometheus(t, metrics.String()), CoreLabel: "cluster"}
	web := types.NamespacedName{Namespace: "shop", Name: "web"}

	var got []string
	testplane.Eventually(t, func() string {
		reader, err := prometheus.New(options, time.Now) // a new one has cached no failure
		if err != nil {
			t.Fatal(err)
		}
		points, err := reader.Points(t.Context(), "east", web, end, 2*time.Hour)
		if err != nil {
			return err.Error()
		}
		got = nil
		for _, p := range points {
			s := p.Last
			got = append(got, fmt.Sprintf("%s %t %d/%d/%d -%d", p.At.Sub(end), s.Known, s.Available, s.Reserved, s.Floor, p.Refused))
		}
		return ""
	})
	want := []string{"-1h0m0s true 12/1/10 -0", "-40m0s false 0/0/0 -0", "-20m0s true 12/1/10 -0", "-15m0s true 12/1/10 -7", "-10m0s true 11/1/10 -0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("points of east (-want +got):\n%s", diff)
	}
	reader, err := prometheus.New(options, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if points, err := reader.Points(t.Context(), "east", types.NamespacedName{Namespace: "shop", Name: `x"} or vector(1) #`}, end, time.Hour); err != nil || len(points) > 0 {
		t.Errorf("points of a name with quotes: %v, error %v, want none", points, err)
	}
}

func TestFailureOfPrometheusIsCached(t *testing.T) {
	now := time.Now()
	reader, err := prometheus.New(prometheus.Options{URL: "http://" + testplane.FreeAddress(t)}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if _, err := reader.Points(canceled, "east", types.NamespacedName{}, now, time.Hour); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("Points() of a Prometheus that does not run: %v", err)
		}
	}
}

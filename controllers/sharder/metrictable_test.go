package sharder

import (
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/metrictable"
)

func TestMetricsMatchTable(t *testing.T) {
	registry := metrictable.NewRecordingRegistry()
	NewMetrics(registry)
	registry.Check(t, "../../docs/reference/metrics.md", func(name string) bool {
		return strings.HasPrefix(name, "breakwater_ring_") && !strings.HasPrefix(name, "breakwater_ring_admission_")
	})
}

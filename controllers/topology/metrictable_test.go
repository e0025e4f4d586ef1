package topology

import (
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/metrictable"
)

func TestMetricsMatchTable(t *testing.T) {
	registry := metrictable.NewRecordingRegistry()
	registry.MustRegister(newMetrics(nil))
	registry.Check(t, "../../docs/reference/metrics.md", func(name string) bool {
		return strings.HasPrefix(name, "breakwater_cell_") || strings.HasPrefix(name, "breakwater_protector")
	})
}

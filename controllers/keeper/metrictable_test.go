package keeper

import (
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/metrictable"
)

func TestMetricsMatchTable(t *testing.T) {
	registry := metrictable.NewRecordingRegistry()
	newMetrics(registry, NewLosses())
	registry.Check(t, "../../docs/reference/metrics.md", func(name string) bool {
		return strings.HasPrefix(name, "breakwater_generator_") && strings.HasSuffix(strings.TrimSuffix(name, "_total"), "_protectors")
	})
}

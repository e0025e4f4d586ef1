package rootguard

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/metrictable"
)

func TestMetricsAreThoseOfTheTable(t *testing.T) {
	registry := metrictable.NewRegistered()
	if _, err := newMetrics(registry); err != nil {
		t.Fatal(err)
	}
	registry.Check(t, "../../docs/metrics.md", metrictable.Prefix("breakwater_rootguard_"))
}

package scheduling

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/metrictable"
)

func TestMetricsMatchDocumentation(t *testing.T) {
	registry := metrictable.NewRecordingRegistry()
	if _, err := newMetrics(registry); err != nil {
		t.Fatal(err)
	}
	registry.Check(t, "../../docs/reference/metrics.md", metrictable.Prefix("breakwater_scheduling_"))
}

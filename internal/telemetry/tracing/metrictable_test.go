package tracing

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/metrictable"
)

func TestMetricsAreThoseOfTheTable(t *testing.T) {
	registry := metrictable.NewRecordingRegistry()
	registry.MustRegister(newSpanCounter())
	registry.Check(t, "../../../docs/reference/metrics.md", metrictable.Prefix("breakwater_trace_"))
}

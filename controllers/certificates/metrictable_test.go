package certificates

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/metrictable"
)

func TestMetricsMatchTable(t *testing.T) {
	registry := metrictable.NewRecordingRegistry()
	NewMetrics(registry)
	registry.Check(t, "../../docs/reference/metrics.md", metrictable.Prefix("breakwater_certificates_"))
}

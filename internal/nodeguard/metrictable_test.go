package nodeguard

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/metrictable"
	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

func TestMetricsMatchDocumentation(t *testing.T) {
	registry := metrictable.NewRecordingRegistry()
	newMetrics().register(registry, &Guard{pods: knownPods{view: podhold.NewView()}, store: &store{}}, func() string { return "" })
	registry.Check(t, "../../docs/reference/metrics.md", metrictable.Prefix("breakwater_node_"))
}

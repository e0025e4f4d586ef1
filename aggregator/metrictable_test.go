package aggregator

import (
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/metrictable"
)

func TestMetricsAreThoseOfTheTable(t *testing.T) {
	registry := metrictable.NewRecordingRegistry()
	newMetrics(registry)
	if _, err := (*metrics)(nil).probe(registry, &rest.Config{}, time.Second); err != nil {
		t.Fatal(err)
	}
	// Each process adds the label of its cell, or cells, to all of them.
	registry.Check(t, "../docs/reference/metrics.md", metrictable.Prefix("breakwater_aggregator_"), "cell")
}

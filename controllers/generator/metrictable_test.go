package generator

import (
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/metrictable"
)

func TestMetricsAreThoseOfTheTable(t *testing.T) {
	registry := metrictable.NewRegistered()
	if _, err := NewMetrics(registry, nil); err != nil {
		t.Fatal(err)
	}
	// Those of protectors are registered by package keeper.
	registry.Check(t, "../../docs/metrics.md", func(name string) bool {
		return strings.HasPrefix(name, "breakwater_generator_") && !strings.HasSuffix(strings.TrimSuffix(name, "_total"), "_protectors")
	})
}

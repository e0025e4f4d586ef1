package generator

import (
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/metrictable"
)

func TestMetricsAreThoseOfTheTable(t *testing.T) {
	rows, err := metrictable.Read("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	registry := metrictable.NewRegistered()
	if _, err := NewMetrics(registry, nil); err != nil {
		t.Fatal(err)
	}
	// Those of protectors are registered by package keeper.
	for _, complaint := range registry.Differ(rows, func(name string) bool {
		return strings.HasPrefix(name, "breakwater_generator_") && !strings.HasSuffix(strings.TrimSuffix(name, "_total"), "_protectors")
	}) {
		t.Error(complaint)
	}
}

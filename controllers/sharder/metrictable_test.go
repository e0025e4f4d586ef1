package sharder

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
	if _, err := NewMetrics(registry); err != nil {
		t.Fatal(err)
	}
	for _, complaint := range registry.Differ(rows, func(name string) bool {
		return strings.HasPrefix(name, "breakwater_ring_") && !strings.HasPrefix(name, "breakwater_ring_admission_")
	}) {
		t.Error(complaint)
	}
}

package generator

import (
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/metrictable"
)

func TestMetricsMatchTable(t *testing.T) {
	registry := metrictable.NewRecordingRegistry()
	NewMetrics(registry, nil)
	// Package keeper registers the metrics of protectors, package brake those of decreases.
	registry.Check(t, "../../docs/reference/metrics.md", func(name string) bool {
		subject := strings.TrimSuffix(name, "_total")
		return strings.HasPrefix(name, "breakwater_generator_") && !strings.HasSuffix(subject, "_protectors") && !strings.HasSuffix(subject, "_decreases")
	})
}

package tracing

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
	registry.MustRegister(newSpanCounter())
	for _, complaint := range registry.Differ(rows, func(name string) bool { return strings.HasPrefix(name, "breakwater_trace_") }) {
		t.Error(complaint)
	}
}

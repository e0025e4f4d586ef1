package aggregator

import (
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/metrictable"
)

func TestMetricsAreThoseOfTheTable(t *testing.T) {
	rows, err := metrictable.Read("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	registry := metrictable.NewRegistered()
	newMetrics(registry)
	if _, err := (*metrics)(nil).probe(registry, &rest.Config{}, time.Second); err != nil {
		t.Fatal(err)
	}
	// Each process adds the label of its cell, or cells, to all of them.
	for _, complaint := range registry.Differ(rows, func(name string) bool { return strings.HasPrefix(name, "breakwater_aggregator_") }, "cell") {
		t.Error(complaint)
	}
}

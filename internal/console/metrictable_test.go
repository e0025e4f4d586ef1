package console

import (
	"strings"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/console/access"
	"github.com/breakwater-k8s/breakwater/internal/metrictable"
)

func TestMetricsAreThoseOfTheTable(t *testing.T) {
	rows, err := metrictable.Read("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	registry := metrictable.NewRegistered()
	newMetrics(registry, access.NewSessions(time.Hour, time.Hour, 1, time.Now), newStreams(1, 1))
	for _, complaint := range registry.Differ(rows, func(name string) bool { return strings.HasPrefix(name, "breakwater_console_") }) {
		t.Error(complaint)
	}
}

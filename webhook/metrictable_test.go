package webhook

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
	m := newMetrics(registry)
	m.watchWaiting("core", func() int { return 0 })
	m.watchVanished("core", func() int { return 0 })
	m.watchOwed("core", func() int { return 0 })
	if _, err := m.probe("core", &rest.Config{}, time.Second); err != nil {
		t.Fatal(err)
	}
	for _, complaint := range registry.Differ(rows, func(name string) bool { return strings.HasPrefix(name, "breakwater_webhook_") }) {
		t.Error(complaint)
	}
}

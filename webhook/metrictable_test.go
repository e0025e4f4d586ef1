package webhook

import (
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/metrictable"
)

func TestMetricsAreThoseOfTheTable(t *testing.T) {
	registry := metrictable.NewRegistered()
	m := newMetrics(registry)
	m.watchWaiting("core", func() int { return 0 })
	m.watchVanished("core", func() int { return 0 })
	m.watchOwed("core", func() int { return 0 })
	m.watchToken("core", &rest.Config{})
	if _, err := m.probe("core", &rest.Config{}, time.Second); err != nil {
		t.Fatal(err)
	}
	registry.Check(t, "../docs/metrics.md", metrictable.Prefix("breakwater_webhook_"))
}

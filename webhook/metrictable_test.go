package webhook

import (
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/telemetry/metrictable"
)

func TestMetricsMatchDocumentation(t *testing.T) {
	registry := metrictable.NewRecordingRegistry()
	m := newMetrics(registry)
	m.registerWaiting("core", func() int { return 0 })
	m.registerLostProtectors("core", func() int { return 0 })
	m.registerPendingCharges("core", func() int { return 0 })
	m.registerTokenExpiry("core", &rest.Config{})
	if _, err := m.newProbe("core", &rest.Config{}, time.Second); err != nil {
		t.Fatal(err)
	}
	registry.Check(t, "../docs/reference/metrics.md", metrictable.Prefix("breakwater_webhook_"))
}

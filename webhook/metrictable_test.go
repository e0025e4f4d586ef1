package webhook

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/metrictable"
	"github.com/breakwater-k8s/breakwater/webhook/server"
)

func TestMetricsMatchDocumentation(t *testing.T) {
	registry := metrictable.NewRecordingRegistry()
	m := newMetrics(registry)
	(&server.Server{}).SetUp(nil, registry, nil, logr.Discard())
	m.registerWaiting("core", func() int { return 0 })
	m.registerLostProtectors("core", func() int { return 0 })
	m.registerPendingCharges("core", func() int { return 0 })
	m.registerTokenExpiry("core", &rest.Config{})
	if _, err := m.newProbe("core", &rest.Config{}, time.Second); err != nil {
		t.Fatal(err)
	}
	registry.Check(t, "../docs/reference/metrics.md", metrictable.Prefix("breakwater_webhook_"))
}

package review

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/metrictable"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
	"github.com/breakwater-k8s/breakwater/webhook/server"
)

func TestMetricsMatchDocumentation(t *testing.T) {
	registry := metrictable.NewRecordingRegistry()
	NewMetrics(registry)
	(&server.Server{}).SetUp(nil, registry, nil, logr.Discard())
	cores := reserve.NewMetrics(registry)
	cores.RegisterCore(newMemoryFixture(t).core, &rest.Config{})
	if _, err := cores.NewProbe("core", &rest.Config{}, time.Second); err != nil {
		t.Fatal(err)
	}
	registry.Check(t, "../../docs/reference/metrics.md", metrictable.Prefix("breakwater_webhook_"))
}

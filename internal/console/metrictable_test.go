package console

import (
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/console/access"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/metrictable"
)

func TestMetricsMatchTable(t *testing.T) {
	registry := metrictable.NewRecordingRegistry()
	newMetrics(registry, access.NewSessions(time.Hour, time.Hour, 1, time.Now), newStreams(1, 1))
	registry.Check(t, "../../docs/reference/metrics.md", metrictable.Prefix("breakwater_console_"))
}

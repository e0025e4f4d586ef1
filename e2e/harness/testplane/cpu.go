package testplane

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// CPUSeconds returns the CPU time that an API server has used so far, in seconds, according to its metrics.
func CPUSeconds(t testing.TB, config *rest.Config) float64 {
	t.Helper()
	raw, err := discovery.NewDiscoveryClientForConfigOrDie(config).RESTClient().Get().AbsPath("/metrics").Timeout(30 * time.Second).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, "process_cpu_seconds_total "); ok {
			seconds, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return seconds
		}
	}
	t.Fatal("the API server does not report its CPU time")
	return 0
}

package testplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
)

// Traced is as Config, for a control plane of the test's own whose apiserver sends spans of all requests to a collector, by gRPC at
// HOST:PORT.
func Traced(t testing.TB, collector string) *rest.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tracing.yaml")
	content := fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: %s\nsamplingRatePerMillion: 1000000\n", collector)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return WithArguments(t, "--tracing-config-file="+file)
}

// WithArguments is as Config, for a control plane of the test's own whose apiserver has more flags.
func WithArguments(t testing.TB, apiServerArguments ...string) *rest.Config {
	t.Helper()
	federation, err := start(t.Context(), apiServerArguments...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := federation.Stop(context.Background()); err != nil {
			t.Errorf("stop the control plane of the test: %v", err)
		}
	})
	return federation.Clusters()[0].RESTConfig()
}

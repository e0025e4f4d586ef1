package testplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
)

// WithTracing is like Config, for a separate control plane whose API server sends the spans of all requests to a collector at
// HOST:PORT by gRPC.
func WithTracing(t testing.TB, collector string) *rest.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tracing.yaml")
	content := fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: %s\nsamplingRatePerMillion: 1000000\n", collector)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return WithArguments(t, "--tracing-config-file="+file)
}

// WithArguments is like Config, for a separate control plane whose API server has additional flags.
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

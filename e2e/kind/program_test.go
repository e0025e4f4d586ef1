package kind_test

import (
	"context"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// startTool starts a tool against a cluster.
func startTool(ctx context.Context, t testing.TB, tool string, cluster federation.Cluster, arguments ...string) *e2e.Command {
	t.Helper()
	return e2e.StartTool(ctx, t, tool, cluster.Kubeconfig(), arguments...)
}

// runTool runs a tool to its end and fails the test if the tool fails. It returns the output.
func runTool(ctx context.Context, t testing.TB, tool string, cluster federation.Cluster, arguments ...string) string {
	t.Helper()
	return e2e.RunTool(ctx, t, tool, cluster.Kubeconfig(), arguments...)
}

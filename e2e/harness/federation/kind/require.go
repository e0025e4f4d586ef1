package kind

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/binaries"
)

const (
	// EnabledVariable names the environment variable without which no test starts a cluster. make e2e BACKEND=kind sets it.
	EnabledVariable = "E2E_KIND"
	// RequireVariable names the environment variable with which a test fails instead of being skipped if docker is missing.
	RequireVariable = "REQUIRE_KIND"
	// pullTimeout bounds the pull of the node image.
	pullTimeout = 10 * time.Minute
)

// Require skips a test that this machine cannot run, or fails it if RequireVariable is set.
func Require(tb testing.TB) Options {
	tb.Helper()
	if os.Getenv(EnabledVariable) == "" && os.Getenv(RequireVariable) == "" {
		tb.Skip("kind clusters take minutes: run this test with make e2e BACKEND=kind")
	}
	options := FromEnvironment()
	ctx, cancel := context.WithTimeout(context.Background(), pullTimeout)
	defer cancel()
	if err := Missing(ctx, options); err != nil && os.Getenv(RequireVariable) != "" {
		tb.Fatalf("%s is set, but kind cannot run: %v", RequireVariable, err)
	} else if err != nil {
		tb.Skipf("kind cannot run: %v", err)
	}
	binaries.LogVersionOnFailure(tb, "docker")
	return options
}

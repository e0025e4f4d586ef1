// Package binaries builds programs of this module for tests that run them.
package binaries

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// The programs that tests run.
const (
	Breakwater        = "github.com/breakwater-k8s/breakwater/cmd/breakwater"
	KubectlBreakwater = "github.com/breakwater-k8s/breakwater/cmd/kubectl-breakwater"
	BreakwaterDev     = "github.com/breakwater-k8s/breakwater/cmd/breakwater-dev"
	TerraformProvider = "github.com/breakwater-k8s/breakwater/terraform-provider"
	Accounted         = "github.com/breakwater-k8s/breakwater/e2e/harness/terraform/accounted"
)

// Build builds a program from the working tree, and writes it to a path that does not exist yet. Only the first build links the
// program, which takes seconds: go run keeps the linked program in Go's build cache, and go build does not.
func Build(ctx context.Context, path, program string) error {
	if out, err := exec.CommandContext(ctx, "go", "run", "-exec", "cp", program, path).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return nil
}

// Version returns the first line that a program prints for --version, or why it prints none.
func Version(ctx context.Context, program string) string {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return fmt.Sprintf("unknown version of %s: %v", program, err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return first
}

// LogVersionOnFailure logs the version of a program if the test fails. Tests call it for programs that the machine provides, such as a
// browser: their behavior differs between versions, and no module pins them.
func LogVersionOnFailure(t testing.TB, program string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("This test used %s: %s", program, Version(context.Background(), program))
		}
	})
}

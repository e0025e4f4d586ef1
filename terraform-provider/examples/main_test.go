package examples_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	// The tests run it as a program. Without the import, go test would return a cached result after it changed.
	_ "github.com/breakwater-k8s/breakwater/terraform-provider/provider"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	code := testplane.Run(m)
	if err := terraform.RemoveProvider(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// forEachProgram runs a test with Terraform, and again with OpenTofu.
func forEachProgram(t *testing.T, play func(t *testing.T, program string)) {
	t.Helper()
	for _, program := range []string{terraform.Terraform, terraform.OpenTofu} {
		t.Run(program, func(t *testing.T) { play(t, program) })
	}
}

package sharding_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// programs is the directory of the binaries that the tests build.
var programs string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "sharding-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs = folder
	code := testplane.Run(m)
	os.RemoveAll(programs)
	os.Exit(code)
}

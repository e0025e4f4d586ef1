// Package realworkloads_test protects workloads as real operators run them. The test has CRDs with the names, the scopes and the scale paths
// of the real ones, and takes the role of the operators. It compares each floor with the right one, deletes all pods in a storm, and writes
// real-workloads-report. To test another workload, add a file to testdata/shapes.
package realworkloads_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
)

var suite = e2e.NewSuite("federated", nil)

func TestMain(m *testing.M) {
	// Most of the time the tests wait for controllers and for counts. So they run in parallel.
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	suite.Prepare = installCRDs
	code := suite.Main(m)
	if err := results.save(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

package e2e_test

import (
	"flag"
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
)

var loopSuite = e2e.NewSuite("federated", putCoreProxy)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(loopSuite.Main(m))
}

type fixture = e2e.Fixture

func claim(t *testing.T, name string, verify func(l *fixture)) {
	t.Helper()
	loopSuite.Claim(t, name, verify)
}

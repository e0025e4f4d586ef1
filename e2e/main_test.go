package e2e_test

import (
	"flag"
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

var callerTokens = flag.Bool("caller-tokens", true, "authenticate the API servers at the webhooks, as an installation should")

var loopSuite = e2e.NewSuite("federated", func(options *install.Options) {
	options.CallerTokens = *callerTokens
	putCoreProxy(options)
})

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(loopSuite.Main(m))
}

type fixture = e2e.Fixture

func claim(t *testing.T, name string, verify func(l *fixture)) {
	t.Helper()
	loopSuite.Claim(t, name, verify)
}

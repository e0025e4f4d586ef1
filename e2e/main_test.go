package e2e_test

import (
	"os"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
)

var loop = e2e.NewSuite("federated", nil)

func TestMain(m *testing.M) { os.Exit(loop.Main(m)) }

type lab = e2e.Lab

func claim(t *testing.T, name string, prove func(l *lab)) {
	t.Helper()
	loop.Claim(t, name, prove)
}

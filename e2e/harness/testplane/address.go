package testplane

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
)

// FreeAddress is a host:port of the loopback interface on which nobody listens, and which is given to nobody else until the test ends.
func FreeAddress(t testing.TB) string {
	t.Helper()
	claim, err := port.Take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(claim.Release)
	return claim.Address()
}

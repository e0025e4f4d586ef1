package testplane

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
)

// FreeAddress returns a host:port of the loopback interface on which no process listens. The port stays reserved until the test
// ends.
func FreeAddress(t testing.TB) string {
	t.Helper()
	claim, err := port.NewClaim()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(claim.Release)
	return claim.Address()
}

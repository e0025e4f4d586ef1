package webhook

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
)

func TestReplicaAddressesAreRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		found, failure := map[string][]string{"peers": {"10.0.0.2", "10.0.0.1"}, "other": {"10.0.0.1"}}, error(nil)
		a := &PeerAddresses{Names: []string{"peers:9443", "other:9443", "other:9444"}, Log: logr.Discard()}
		a.LookUp = func(_ context.Context, host string) ([]string, error) { return found[host], failure }
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := a.Start(ctx); err != nil {
				t.Error(err)
			}
		})
		expect := func(claim string, want ...string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, a.All()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", claim, diff)
			}
		}
		lookAgain := func() { <-time.After(lookUpInterval) }
		expect("all addresses of all names, once each", "10.0.0.1:9443", "10.0.0.1:9444", "10.0.0.2:9443")
		found["peers"] = []string{"10.0.0.3"}
		lookAgain()
		expect("what has changed", "10.0.0.1:9443", "10.0.0.1:9444", "10.0.0.3:9443")
		failure = errors.New("no such host")
		lookAgain()
		expect("what was known while it cannot be looked up", "10.0.0.1:9443", "10.0.0.1:9444", "10.0.0.3:9443")
		stop()
		running.Wait()
	})
}

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
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

// A storm begins with many calls at once, which are all in flight when the last of them arrives.
func TestConcurrentCallsToReplicaShareConnections(t *testing.T) {
	for _, c := range []struct{ calls, streams, most int }{{calls: 64, streams: maxStreams, most: 1}, {calls: 300, streams: 50, most: 30}} {
		t.Run(fmt.Sprint(c.calls, " calls, ", c.streams, " streams"), func(t *testing.T) {
			var connections atomic.Int64
			var arrived sync.WaitGroup
			arrived.Add(c.calls)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				arrived.Done()
				arrived.Wait()
			}))
			server.EnableHTTP2, server.Config.HTTP2 = true, &http.HTTP2Config{MaxConcurrentStreams: c.streams}
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					connections.Add(1)
				}
			}
			server.StartTLS()
			defer server.Close()
			client := identity{certificate: func() (*tls.Certificate, error) { return &server.TLS.Certificates[0], nil }}.client()
			defer client.CloseIdleConnections()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var calling sync.WaitGroup
			for range c.calls {
				calling.Go(func() {
					request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
					if err != nil {
						t.Error(err)
						return
					}
					response, err := client.Do(request)
					if err != nil {
						t.Error(err)
						return
					}
					_ = response.Body.Close()
				})
			}
			calling.Wait()
			if got := connections.Load(); got > int64(c.most) {
				t.Errorf("%d concurrent calls opened %d connections, want at most %d", c.calls, got, c.most)
			}
		})
	}
}

package webhook

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener of connections in memory.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial() (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func alone() int { return 1 }

// paced makes callers ask again and again, as an apiserver does, of replicas that answer all who wait every 20 ms, and to which
// connections go in turn. It returns how many connections that took, and the longest time until an answer.
func paced(t *testing.T, replicas []*pace, callers, each int, wait func(*pace, context.Context)) (connections int64, longest time.Duration) {
	t.Helper()
	listeners := make([]*pipes, len(replicas))
	servers := make([]*http.Server, len(replicas))
	served := make(chan error, len(replicas))
	for n, p := range replicas {
		listeners[n] = newPipes()
		servers[n] = &http.Server{
			ReadHeaderTimeout: time.Minute, ConnContext: p.context, ConnState: p.observe,
			Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				const flight = 20 * time.Millisecond
				<-time.After(time.Until(time.Now().Truncate(flight).Add(flight)))
				wait(p, r.Context())
			}),
		}
		go func() { served <- servers[n].Serve(listeners[n]) }()
	}
	var dialed atomic.Int64
	transport := &http.Transport{MaxIdleConnsPerHost: 25, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return listeners[dialed.Add(1)%int64(len(replicas))].dial()
	}}
	longest = askAgainAndAgain(t, transport, callers, each)
	transport.CloseIdleConnections()
	for _, server := range servers {
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
	return dialed.Load(), longest
}

// askAgainAndAgain asks by that many callers, each as often, and returns the longest time until an answer.
func askAgainAndAgain(t *testing.T, transport http.RoundTripper, callers, each int) (longest time.Duration) {
	t.Helper()
	client := &http.Client{Transport: transport}
	var running sync.WaitGroup
	var mu sync.Mutex
	for range callers {
		running.Go(func() {
			for range each {
				asked := time.Now()
				response, err := client.Post("http://webhook/", "application/json", http.NoBody) //nolint:noctx // ends by itself
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				mu.Lock()
				longest = max(longest, time.Since(asked))
				mu.Unlock()
				<-time.After(3 * time.Millisecond) // what is left of the deletion
			}
		})
	}
	running.Wait()
	return longest
}

func TestAStormKeepsItsConnections(t *testing.T) {
	const callers, each = 64, 20
	for _, replicas := range []int{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			var all []*pace
			for range replicas {
				all = append(all, newPace(func() int { return replicas }))
			}
			connections, _ := paced(t, all, callers, each, (*pace).wait)
			if connections > callers {
				t.Errorf("%d connections for %d callers of %d replicas", connections, callers, replicas)
			}
			synctest.Wait() // the server's connections have told that they are closed
			for _, p := range all {
				p.mu.Lock()
				if len(p.conns)+len(p.clients) != 0 {
					t.Errorf("%d connections of %d clients are remembered, and all are closed", len(p.conns), len(p.clients))
				}
				p.mu.Unlock()
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		unpaced := func(*pace, context.Context) {}
		if connections, _ := paced(t, []*pace{newPace(alone)}, callers, each, unpaced); connections < 3*callers {
			t.Errorf("%d connections without pacing: there is nothing that it is good for", connections)
		}
	})
}

func TestAFewCallersNeverWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, longest := paced(t, []*pace{newPace(alone)}, keptIdle, 5, (*pace).wait); longest > 20*time.Millisecond {
			t.Errorf("an answer took %s, and a flight 20 ms", longest)
		}
	})
}

// A client that has nothing more to ask gets its answers all the same.
func TestAnAnswerWaitsNoLongerThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, longest := paced(t, []*pace{newPace(alone)}, 64, 1, (*pace).wait); longest > 20*time.Millisecond+longestPace {
			t.Errorf("an answer took %s, want at most %s after its flight", longest, longestPace)
		}
	})
}

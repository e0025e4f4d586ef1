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

// pipes is a listener and a dialer of connections in memory.
type pipes struct {
	conns  chan net.Conn
	dialed atomic.Int64
	once   sync.Once
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	p.dialed.Add(1)
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

// paced makes callers ask again and again, as an apiserver does, of a server that answers all who wait every 20 ms. It
// returns how many connections that took, and the longest time until an answer.
func paced(t *testing.T, p *pace, callers, each int, wait func(context.Context)) (connections int64, longest time.Duration) {
	t.Helper()
	listener := newPipes()
	server := &http.Server{
		ReadHeaderTimeout: time.Minute, ConnContext: p.context, ConnState: p.observe,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			const flight = 20 * time.Millisecond
			<-time.After(time.Until(time.Now().Truncate(flight).Add(flight)))
			wait(r.Context())
		}),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	transport := &http.Transport{DialContext: listener.dial, MaxIdleConnsPerHost: 25}
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
	transport.CloseIdleConnections()
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	return listener.dialed.Load(), longest
}

func TestAStormKeepsItsConnections(t *testing.T) {
	const callers, each = 64, 20
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		connections, _ := paced(t, p, callers, each, p.wait)
		if connections > callers {
			t.Errorf("%d connections for %d callers", connections, callers)
		}
		synctest.Wait() // the server's connections have told that they are closed
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.conns)+len(p.clients) != 0 {
			t.Errorf("%d connections of %d clients are remembered, and all are closed", len(p.conns), len(p.clients))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if connections, _ := paced(t, newPace(), callers, each, func(context.Context) {}); connections < 3*callers {
			t.Errorf("%d connections without pacing: there is nothing that it is good for", connections)
		}
	})
}

func TestAFewCallersNeverWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		if _, longest := paced(t, p, keptIdle, 5, p.wait); longest > 20*time.Millisecond {
			t.Errorf("an answer took %s, and a flight 20 ms", longest)
		}
	})
}

// A client that has nothing more to ask gets its answers all the same.
func TestAnAnswerWaitsNoLongerThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		if _, longest := paced(t, p, 64, 1, p.wait); longest > 20*time.Millisecond+longestPace {
			t.Errorf("an answer took %s, want at most %s after its flight", longest, longestPace)
		}
	})
}

package server

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

// pipes is a listener of in-memory connections.
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

func oneReplica() int { return 1 }

// callerRound is a number of callers, how many requests each sends, and their rest afterwards.
type callerRound struct {
	callers, each int
	rest          time.Duration
}

// runPaced makes callers send requests repeatedly, as an API server does. The replicas answer all waiting requests every
// 20 ms, and connections go to the replicas in turn. The rounds run one after the other. It returns the number of
// connections, and the longest time to an answer in the last round.
func runPaced(t *testing.T, replicas []*connectionPacer, wait func(*connectionPacer, context.Context), rounds ...callerRound) (connections int64, longest time.Duration) {
	t.Helper()
	listeners := make([]*pipes, len(replicas))
	servers := make([]*http.Server, len(replicas))
	served := make(chan error, len(replicas))
	for n, p := range replicas {
		listeners[n] = newPipes()
		servers[n] = &http.Server{
			ReadHeaderTimeout: time.Minute, ConnContext: p.withConn, ConnState: p.observe,
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
	for _, r := range rounds {
		longest = sendRepeatedly(t, transport, r.callers, r.each)
		<-time.After(r.rest)
	}
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

// sendRepeatedly sends each requests with each of the callers, and returns the longest time to an answer.
func sendRepeatedly(t *testing.T, transport http.RoundTripper, callers, each int) (longest time.Duration) {
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
				<-time.After(3 * time.Millisecond) // the rest of the deletion
			}
		})
	}
	running.Wait()
	return longest
}

func TestStormReusesConnections(t *testing.T) {
	const callers, each = 64, 20
	for _, replicas := range []int{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			var all []*connectionPacer
			for range replicas {
				all = append(all, newConnectionPacer(func() int { return replicas }))
			}
			connections, _ := runPaced(t, all, (*connectionPacer).wait, callerRound{callers: callers, each: each})
			if connections > callers {
				t.Errorf("%d connections for %d callers of %d replicas", connections, callers, replicas)
			}
			synctest.Wait() // the server has observed that its connections are closed
			for _, p := range all {
				p.mu.Lock()
				if len(p.conns)+len(p.clients) != 0 {
					t.Errorf("%d connections of %d clients recorded after all were closed, want 0", len(p.conns), len(p.clients))
				}
				p.mu.Unlock()
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		unpaced := func(*connectionPacer, context.Context) {}
		if connections, _ := runPaced(t, []*connectionPacer{newConnectionPacer(oneReplica)}, unpaced, callerRound{callers: callers, each: each}); connections < 3*callers {
			t.Errorf("%d connections without pacing: pacing has no effect in this test", connections)
		}
	})
}

func TestFewCallersAreNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, longest := runPaced(t, []*connectionPacer{newConnectionPacer(oneReplica)}, (*connectionPacer).wait, callerRound{callers: maxIdleKept, each: 5}); longest > 20*time.Millisecond {
			t.Errorf("an answer took %s, a batch 20 ms", longest)
		}
	})
}

// A client without further requests gets its answers anyway.
func TestPacingDelayIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, longest := runPaced(t, []*connectionPacer{newConnectionPacer(oneReplica)}, (*connectionPacer).wait, callerRound{callers: 64, each: 1}); longest > 20*time.Millisecond+maxPacingDelay {
			t.Errorf("an answer took %s, want at most %s after its batch", longest, maxPacingDelay)
		}
	})
}

// After a storm a client has many connections, and uses them only occasionally.
func TestOccasionalCallerIsNotDelayed(t *testing.T) {
	for claim, rounds := range map[string][]callerRound{
		"after a while":              {{callers: 64, each: 10, rest: 2 * closeGrace}, {callers: 3, each: 20}},
		"when it has waited at most": {{callers: 64, each: 10}, {callers: 3, each: 20}, {callers: 3, each: 20}},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				connections, longest := runPaced(t, threeReplicas(), (*connectionPacer).wait, rounds...)
				if connections > 64 {
					t.Errorf("%d connections for 64 callers", connections)
				}
				if longest > 20*time.Millisecond {
					t.Errorf("an answer took %s after the storm, a batch 20 ms", longest)
				}
			})
		})
	}
}

func threeReplicas() (all []*connectionPacer) {
	for range 3 {
		all = append(all, newConnectionPacer(func() int { return 3 }))
	}
	return all
}

// The number of connections that a client has proved to keep does not make it close those that it cannot keep.
func TestSecondStormReusesConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if connections, _ := runPaced(t, threeReplicas(), (*connectionPacer).wait, callerRound{callers: 64, each: 20}, callerRound{callers: 2, each: 20}, callerRound{callers: 64, each: 20}); connections > 2*64 {
			t.Errorf("%d connections for two storms of 64 callers", connections)
		}
	})
}

func TestObservedIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newConnectionPacer(oneReplica)
		var conns []net.Conn
		for range 3 {
			conn, _ := net.Pipe()
			conns = append(conns, conn)
			p.observe(conn, http.StateNew)
			p.wait(p.withConn(t.Context(), conn)) // it is answered
		}
		proven := func() int { return p.clients["pipe"].keepsIdle }
		<-time.After(closeGrace)
		if p.observe(conns[0], http.StateActive); proven() != 3 {
			t.Errorf("%d idle connections proven, want 3", proven())
		}
		p.wait(p.withConn(t.Context(), conns[0]))
		if p.observe(conns[1], http.StateClosed); proven() != 3 {
			t.Errorf("%d idle connections proven after a kept one was closed, want 3", proven())
		}
		if p.observe(conns[0], http.StateClosed); proven() != 0 {
			t.Errorf("%d idle connections proven after one was closed at once, want 0", proven())
		}
	})
}

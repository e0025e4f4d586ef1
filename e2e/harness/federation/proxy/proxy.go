// Package proxy is a TCP proxy for fault injection: it delays, stalls or cuts connections, each in one direction or in
// both. It does not terminate TLS.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
)

// dialTimeout bounds how long a client waits for a server that does not accept.
const dialTimeout = 10 * time.Second

// Direction is a direction of the data.
type Direction int

const (
	// Both is both directions.
	Both Direction = iota
	// ToServer is the direction from the client to the server.
	ToServer
	// ToClient is the direction from the server to the client.
	ToClient
)

func (d Direction) covers(one Direction) bool { return d == Both || d == one }

// Proxy forwards connections to one server. Its methods may be called at any time, by several goroutines.
type Proxy struct {
	target      string
	reservation *port.Reservation
	lanes       map[Direction]*lane // of ToServer and ToClient
	closing     chan struct{}

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	pairs    map[*connectionPair]struct{}
	closed   bool
	running  sync.WaitGroup
}

// Start forwards connections to target, a host:port, until Close.
func Start(ctx context.Context, target string) (*Proxy, error) {
	reservation, err := port.Reserve()
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		target:      target,
		reservation: reservation,
		lanes:       map[Direction]*lane{ToServer: newLane(), ToClient: newLane()},
		closing:     make(chan struct{}),
		pairs:       map[*connectionPair]struct{}{},
	}
	if err := p.listen(ctx); err != nil {
		return nil, errors.Join(err, reservation.Release())
	}
	return p, nil
}

// Address returns the host:port for clients. It does not change.
func (p *Proxy) Address() string { return p.reservation.Address() }

// Delay delays all data that the proxy receives from now on by the given time.
func (p *Proxy) Delay(direction Direction, by time.Duration) {
	p.change(direction, func(f *fault) { f.delay = by })
}

// Stall holds all data but keeps connections open and accepts new ones. Held data arrives after Heal, as after a
// partition that TCP survived.
func (p *Proxy) Stall(direction Direction) {
	p.change(direction, func(f *fault) { f.stalled = true })
}

// Cut in both directions resets all connections and refuses new ones. In one direction it ends that direction
// only: the receiver gets the end of the stream, also in new connections, while the other direction continues.
func (p *Proxy) Cut(direction Direction) error {
	if direction != Both {
		p.change(direction, func(f *fault) { f.cut = true })
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closeListener()
}

// Heal ends Delay, Stall and Cut. Connections that were cut stay closed.
func (p *Proxy) Heal(ctx context.Context) error {
	p.change(Both, func(f *fault) { *f = fault{} })
	return p.listen(ctx)
}

// Close ends all connections and returns when no goroutine of the proxy is left.
func (p *Proxy) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	close(p.closing)
	err := p.closeListener()
	p.mu.Unlock()
	p.running.Wait()
	return errors.Join(err, p.reservation.Release())
}

func (p *Proxy) change(direction Direction, apply func(*fault)) {
	for one, lane := range p.lanes {
		if direction.covers(one) {
			lane.change(apply)
		}
	}
}

// closeListener must be called with p.mu held.
func (p *Proxy) closeListener() error {
	var err error
	if p.listener != nil {
		err = p.listener.Close()
		p.listener = nil
	}
	for pair := range p.pairs {
		pair.reset()
	}
	return err
}

func (p *Proxy) listen(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("the proxy is closed")
	}
	if p.listener != nil {
		return nil
	}
	listener, err := p.reservation.Listen(ctx)
	if err != nil {
		return fmt.Errorf("listen as proxy for %s: %w", p.target, err)
	}
	p.listener = listener
	p.running.Go(func() { p.accept(listener) })
	return nil
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // closed by refuse; the loopback interface has no other permanent error
		}
		p.running.Go(func() { p.forward(listener, client.(*net.TCPConn)) })
	}
}

func (p *Proxy) forward(listener net.Listener, client *net.TCPConn) {
	conn, err := p.dial()
	if err != nil {
		reset(client) // the server refused, so the client gets a reset, too
		return
	}
	pair := &connectionPair{client: client, server: conn.(*net.TCPConn), ended: make(chan struct{})}
	p.mu.Lock()
	p.pairs[pair] = struct{}{}
	// A Cut may have come since the connection was accepted.
	if p.listener != listener {
		pair.reset()
	}
	p.mu.Unlock()
	pair.forward(p.lanes)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, pair)
}

// dial connects to the server. This can take long when the server is frozen and its backlog is full.
func (p *Proxy) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	p.running.Go(func() {
		select {
		case <-p.closing:
			cancel()
		case <-done:
		}
	})
	return new(net.Dialer).DialContext(ctx, "tcp4", p.target)
}

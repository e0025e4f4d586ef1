package server

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// connectionPacer delays answers to the rate at which a client reuses its connections.
//
// An API server speaks HTTP/1.1 to webhooks, unless they have a loopback address, and keeps 25 idle connections to
// each. When more become idle at once it closes the others, and opens as many for its next reviews. Each needs a TLS
// handshake, which costs more than a review does. A batch answers all its callers at once. So an answer waits while the
// client has as many idle connections as it is certain to keep, until it reuses one of them, but never for long. To a client
// all replicas together are one host, and it keeps its idle connections to all of them together. So each replica has
// its share. A client that has kept more for a while has proved that it can. A client that asks only occasionally after
// a storm, over one of many connections, need not wait.
type connectionPacer struct {
	// replicas returns the number of replicas now, including this one.
	replicas func() int
	now      func() time.Time

	mu      sync.Mutex
	conns   map[net.Conn]*pacedConn
	clients map[string]*pacedClient
}

const (
	// maxIdleKept is how many idle connections a client keeps to a host: less than the default of client-go.
	maxIdleKept = 20
	// closeGrace is the time within which a client closes a connection that it does not keep.
	closeGrace = 100 * time.Millisecond
	// maxPacingDelay limits how long an answer waits when the client has no further request.
	maxPacingDelay = 50 * time.Millisecond
)

// pacedConn is one connection. connectionPacer.mu guards it.
type pacedConn struct {
	client *pacedClient
	// idle reports whether its last request was answered and no new one has arrived since.
	idle  bool
	since time.Time
}

// isKept reports whether the client keeps the connection.
func (c *pacedConn) isKept(now time.Time) bool { return c.idle && now.Sub(c.since) >= closeGrace }

// pacedClient groups the connections from one address. connectionPacer.mu guards it.
type pacedClient struct {
	address string
	conns   map[*pacedConn]struct{}
	idle    int
	// keepsIdle is how many free connections the client was observed to keep; 0 again when it closes one at once.
	keepsIdle int
	// candidate is how many connections were free when an answer stopped waiting. It becomes keepsIdle at candidateAt, if the
	// client has closed none of them until then.
	candidate   int
	candidateAt time.Time
	// waiting are the answers that wait for the client to reuse a connection, in order of arrival.
	waiting []chan struct{}
}

func newConnectionPacer(replicas func() int) *connectionPacer {
	return &connectionPacer{replicas: replicas, now: time.Now, conns: map[net.Conn]*pacedConn{}, clients: map[string]*pacedClient{}}
}

type connKey struct{}

// withConn is the ConnContext of a server. It stores the connection in the context of its requests.
func (p *connectionPacer) withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// observe is the ConnState callback of a server.
func (p *connectionPacer) observe(conn net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch c := p.conns[conn]; {
	case state == http.StateNew:
		p.add(conn)
	case c == nil:
	case state == http.StateActive && c.idle:
		c.client.observeReuse(c, p.now())
		c.markInUse()
	case state == http.StateClosed || state == http.StateHijacked:
		if c.idle && !c.isKept(p.now()) {
			c.client.keepsIdle, c.client.candidate = 0, 0
		}
		c.markInUse()
		p.remove(conn, c)
	}
}

func (p *connectionPacer) add(conn net.Conn) {
	address, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		address = conn.RemoteAddr().String()
	}
	client := p.clients[address]
	if client == nil {
		client = &pacedClient{address: address, conns: map[*pacedConn]struct{}{}}
		p.clients[address] = client
	}
	c := &pacedConn{client: client}
	client.conns[c] = struct{}{}
	p.conns[conn] = c
}

func (p *connectionPacer) remove(conn net.Conn, c *pacedConn) {
	delete(p.conns, conn)
	delete(c.client.conns, c)
	if len(c.client.conns) == 0 {
		delete(p.clients, c.client.address)
	}
}

// markInUse records that a connection is no longer free, and wakes an answer to take its place.
func (c *pacedConn) markInUse() {
	if !c.idle {
		return
	}
	c.idle = false
	client := c.client
	client.idle--
	if len(client.waiting) > 0 {
		close(client.waiting[0])
		client.waiting = client.waiting[1:]
	}
}

// observeReuse records how many connections the client keeps, when it reuses one of them.
func (c *pacedClient) observeReuse(reused *pacedConn, now time.Time) {
	kept := 1
	for conn := range c.conns {
		if conn != reused && conn.isKept(now) {
			kept++
		}
	}
	c.keepsIdle = max(c.keepsIdle, kept)
}

// observeIdle records that more connections are free than the client was observed to keep.
func (c *pacedClient) observeIdle(now time.Time) {
	if c.idle > max(c.keepsIdle, c.candidate) {
		c.candidate, c.candidateAt = c.idle, now.Add(closeGrace)
	}
}

// acceptCandidate makes the candidate the number of connections that the client keeps, once candidateAt has passed.
func (c *pacedClient) acceptCandidate(now time.Time) {
	if c.candidate > 0 && !now.Before(c.candidateAt) {
		c.keepsIdle, c.candidate = max(c.keepsIdle, c.candidate), 0
	}
}

// wait returns when the answer to a request may be sent.
func (p *connectionPacer) wait(ctx context.Context) {
	conn, ok := ctx.Value(connKey{}).(net.Conn)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.conns[conn]
	if c == nil {
		return // it was closed
	}
	client, share := c.client, max(1, maxIdleKept/p.replicas())
	now := p.now()
	deadline := now.Add(maxPacingDelay)
	client.acceptCandidate(now)
	for client.idle >= max(share, client.keepsIdle) && p.now().Before(deadline) && ctx.Err() == nil {
		ready := make(chan struct{})
		client.waiting = append(client.waiting, ready)
		p.mu.Unlock()
		select {
		case <-ready:
		case <-time.After(deadline.Sub(p.now())):
		case <-ctx.Done():
		}
		p.mu.Lock()
		client.waiting = slices.DeleteFunc(client.waiting, func(other chan struct{}) bool { return other == ready })
	}
	if c.idle = p.conns[conn] == c; c.idle {
		c.since = p.now()
		client.idle++
		client.observeIdle(c.since)
	}
}

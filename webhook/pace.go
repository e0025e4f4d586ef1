package webhook

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// pace delays answers to the rate at which a client reuses its connections.
//
// An API server speaks HTTP/1.1 to webhooks, unless they have a loopback address, and keeps 25 idle connections to
// each. When more become idle at once it closes the others, and opens as many for its next reviews. Each needs a TLS
// handshake, which costs more than a review does. A batch answers all its callers at once. So an answer waits while the
// client has as many idle connections as it is certain to keep, until it reuses one of them, but never for long. To a client
// all replicas together are one host, and it keeps its idle connections to all of them together. So each replica has
// its share. A client that has kept more for a while has proved that it can. A client that asks only occasionally after
// a storm, over one of many connections, need not wait.
type pace struct {
	// replicas returns the number of replicas now, including this one.
	replicas func() int

	mu      sync.Mutex
	conns   map[net.Conn]*pacedConn
	clients map[string]*pacedClient
}

const (
	// keptIdle is how many idle connections a client keeps to a host: less than the default of client-go.
	keptIdle = 20
	// settling is the time within which a client closes a connection that it does not keep.
	settling = 100 * time.Millisecond
	// longestPace limits how long an answer waits when the client has no further request.
	longestPace = 50 * time.Millisecond
)

// pacedConn is one connection. pace.mu guards it.
type pacedConn struct {
	client *pacedClient
	// free reports whether its last request was answered and no new one has arrived since.
	free  bool
	since time.Time
}

// settled reports whether the client keeps the connection.
func (c *pacedConn) settled(now time.Time) bool { return c.free && now.Sub(c.since) >= settling }

// pacedClient groups the connections from one address. pace.mu guards it.
type pacedClient struct {
	address string
	conns   map[*pacedConn]struct{}
	free    int
	// proven is how many free connections the client was observed to keep; 0 again when it closes one at once.
	proven int
	// tried is how many connections were free when an answer stopped waiting. It becomes proven at the time then, if the
	// client has closed none of them until then.
	tried int
	then  time.Time
	// waiting are the answers that wait for the client to reuse a connection, in order of arrival.
	waiting []chan struct{}
}

func newPace(replicas func() int) *pace {
	return &pace{replicas: replicas, conns: map[net.Conn]*pacedConn{}, clients: map[string]*pacedClient{}}
}

type connKey struct{}

// context is the ConnContext of a server. It stores the connection in the context of its requests.
func (p *pace) context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// observe is the ConnState callback of a server.
func (p *pace) observe(conn net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch c := p.conns[conn]; {
	case state == http.StateNew:
		p.enter(conn)
	case c == nil:
	case state == http.StateActive && c.free:
		c.client.prove(c, time.Now())
		c.release()
	case state == http.StateClosed || state == http.StateHijacked:
		if c.free && !c.settled(time.Now()) {
			c.client.proven, c.client.tried = 0, 0
		}
		c.release()
		p.leave(conn, c)
	}
}

func (p *pace) enter(conn net.Conn) {
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

func (p *pace) leave(conn net.Conn, c *pacedConn) {
	delete(p.conns, conn)
	delete(c.client.conns, c)
	if len(c.client.conns) == 0 {
		delete(p.clients, c.client.address)
	}
}

// release records that a connection is no longer free, and wakes an answer to take its place.
func (c *pacedConn) release() {
	if !c.free {
		return
	}
	c.free = false
	client := c.client
	client.free--
	if len(client.waiting) > 0 {
		close(client.waiting[0])
		client.waiting = client.waiting[1:]
	}
}

// prove records how many connections the client keeps, when it reuses one of them.
func (c *pacedClient) prove(taken *pacedConn, now time.Time) {
	kept := 1
	for conn := range c.conns {
		if conn != taken && conn.settled(now) {
			kept++
		}
	}
	c.proven = max(c.proven, kept)
}

// try records that more connections are free than the client was observed to keep.
func (c *pacedClient) try(now time.Time) {
	if c.free > max(c.proven, c.tried) {
		c.tried, c.then = c.free, now.Add(settling)
	}
}

// learn counts what was tried as proven, once settling has passed.
func (c *pacedClient) learn(now time.Time) {
	if c.tried > 0 && !now.Before(c.then) {
		c.proven, c.tried = max(c.proven, c.tried), 0
	}
}

// wait returns when the answer to a request may be sent.
func (p *pace) wait(ctx context.Context) {
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
	client, share := c.client, max(1, keptIdle/p.replicas())
	client.learn(time.Now())
	for deadline := time.Now().Add(longestPace); client.free >= max(share, client.proven) && time.Now().Before(deadline) && ctx.Err() == nil; {
		turn := make(chan struct{})
		client.waiting = append(client.waiting, turn)
		p.mu.Unlock()
		select {
		case <-turn:
		case <-time.After(time.Until(deadline)):
		case <-ctx.Done():
		}
		p.mu.Lock()
		client.waiting = slices.DeleteFunc(client.waiting, func(other chan struct{}) bool { return other == turn })
	}
	if c.free = p.conns[conn] == c; c.free {
		c.since = time.Now()
		client.free++
		client.try(c.since)
	}
}

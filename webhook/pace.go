package webhook

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// pace lets answers go as fast as a client takes its connections up again.
//
// An apiserver speaks HTTP/1.1 to webhooks, unless they have a loopback address, and keeps 25 idle connections to each. When
// more become idle at once it closes the others, and opens as many for its next reviews, each with a TLS handshake that costs
// more than a review does. A flight answers all its callers at once. So an answer waits while as many connections of its
// client are idle as it is sure to keep, until it takes one of them up, but never for long. What a client keeps it keeps to
// all replicas together, which are one host to it, so that each replica has its share. A client that has kept more for a
// while shows that it can: who asks now and then after a storm, over one of many connections, need not wait.
type pace struct {
	// replicas is how many there are now, this one with them.
	replicas func() int

	mu      sync.Mutex
	conns   map[net.Conn]*pacedConn
	clients map[string]*pacedClient
}

const (
	// keptIdle is how many connections a client keeps to a host that nothing is asked on: less than client-go does by
	// default.
	keptIdle = 20
	// settling is how long a client has at most to close a connection that it does not keep.
	settling = 100 * time.Millisecond
	// longestPace bounds what an answer waits for a client that has nothing more to ask.
	longestPace = 50 * time.Millisecond
)

// pacedConn is one connection. pace.mu guards it.
type pacedConn struct {
	client *pacedClient
	// free tells that it has been answered and that nothing has been asked on it since then.
	free  bool
	since time.Time
}

// settled tells whether the client keeps the connection.
func (c *pacedConn) settled(now time.Time) bool { return c.free && now.Sub(c.since) >= settling }

// pacedClient is all connections from one address. pace.mu guards it.
type pacedClient struct {
	address string
	conns   map[*pacedConn]struct{}
	free    int
	// proven is how many free connections it was seen to keep; 0 again when it closes one at once.
	proven int
	// tried is how many are free now that an answer did not wait any longer, and they are proven if the client has closed
	// none by then.
	tried int
	then  time.Time
	// waiting are the answers that wait for a connection to be taken up, the first first.
	waiting []chan struct{}
}

func newPace(replicas func() int) *pace {
	return &pace{replicas: replicas, conns: map[net.Conn]*pacedConn{}, clients: map[string]*pacedClient{}}
}

type connKey struct{}

// context is the ConnContext of a server: requests know their connection.
func (p *pace) context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// observe is the ConnState of a server.
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

// release notes that a connection is free no longer: another may become so in its place.
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

// prove notes how many connections the client keeps, when it takes up one of them.
func (c *pacedClient) prove(taken *pacedConn, now time.Time) {
	kept := 1
	for conn := range c.conns {
		if conn != taken && conn.settled(now) {
			kept++
		}
	}
	c.proven = max(c.proven, kept)
}

// try notes that more connections are free than the client was seen to keep.
func (c *pacedClient) try(now time.Time) {
	if c.free > max(c.proven, c.tried) {
		c.tried, c.then = c.free, now.Add(settling)
	}
}

// learn takes what was tried for proven, when it is time.
func (c *pacedClient) learn(now time.Time) {
	if c.tried > 0 && !now.Before(c.then) {
		c.proven, c.tried = max(c.proven, c.tried), 0
	}
}

// wait returns when the answer to a request may go.
func (p *pace) wait(ctx context.Context) {
	conn, ok := ctx.Value(connKey{}).(net.Conn)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.conns[conn]
	if c == nil {
		return // it is gone
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

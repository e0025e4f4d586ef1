package webhook

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// maxConnections bounds how many connections are open at a time. An API server opens one for each review that it waits for, which its own limits keep
// to some hundreds. One that is open costs about 30 KiB of memory.
const maxConnections = 8192

// connections is a listener that bounds how many connections are open. A new one over the bound replaces the oldest of the client address that has
// the most, and of these one over which no complete review has come, if there is one. So callers that open connections and send nothing end
// their own connections and not those of an API server.
type connections struct {
	net.Listener
	most int
	// evicted is called for each connection that is closed for a new one.
	evicted func()

	mu      sync.Mutex
	open    int
	clients map[string]*list.List // of *connection by address, the oldest first
}

// connection is one of a client.
type connection struct {
	net.Conn
	all     *connections
	client  string
	place   *list.Element // nil when it was closed; connections.mu guards it
	useful  bool          // whether a complete review has come over it; connections.mu guards it
	closing sync.Once
	err     error
}

func newConnections(listener net.Listener, most int, evicted func()) *connections {
	return &connections{Listener: listener, most: most, evicted: evicted, clients: map[string]*list.List{}}
}

// Accept waits for the next connection.
func (c *connections) Accept() (net.Conn, error) {
	accepted, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	client, _, err := net.SplitHostPort(accepted.RemoteAddr().String())
	if err != nil {
		client = accepted.RemoteAddr().String()
	}
	entering := &connection{Conn: accepted, all: c, client: client}
	if victim := c.enter(entering); victim != nil {
		_ = victim.Close() // it is the client's loss
		c.evicted()
	}
	return entering, nil
}

// enter notes a connection, and returns the one that must be closed for it; nil if there is room.
func (c *connections) enter(entering *connection) (victim *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.most {
		victim = c.victim()
		c.leave(victim)
	}
	if c.clients[entering.client] == nil {
		c.clients[entering.client] = list.New()
	}
	entering.place = c.clients[entering.client].PushBack(entering)
	c.open++
	return victim
}

// victim is the connection that is missed the least; c.mu is held, and at least one is open.
func (c *connections) victim() *connection {
	var largest *list.List
	for _, open := range c.clients {
		if largest == nil || open.Len() > largest.Len() {
			largest = open
		}
	}
	for e := largest.Front(); e != nil; e = e.Next() {
		if candidate := e.Value.(*connection); !candidate.useful { //nolint:forcetypeassert // nothing else is listed
			return candidate
		}
	}
	return largest.Front().Value.(*connection) //nolint:forcetypeassert // likewise
}

// leave forgets a connection; c.mu is held.
func (c *connections) leave(leaving *connection) {
	if leaving.place == nil {
		return
	}
	of := c.clients[leaving.client]
	of.Remove(leaving.place)
	leaving.place = nil
	if of.Len() == 0 {
		delete(c.clients, leaving.client)
	}
	c.open--
}

// Close closes the connection, once.
func (c *connection) Close() error {
	c.closing.Do(func() {
		c.all.mu.Lock()
		c.all.leave(c)
		c.all.mu.Unlock()
		c.err = c.Conn.Close()
	})
	return c.err
}

// noteReview notes that a complete review has come over the connection of a request.
func noteReview(ctx context.Context) {
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	if of, ok := conn.(*connection); ok {
		of.all.mu.Lock()
		defer of.all.mu.Unlock()
		of.useful = true
	}
}

package webhook

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// maxConnections limits the number of open connections. An API server opens one connection for each review that it
// waits for, and its own limits keep those to some hundreds. An open connection costs about 30 KiB of memory.
const maxConnections = 8192

// connections is a listener that limits the number of open connections. At the limit, a new connection replaces one of
// the client address that has the most: the oldest over which no complete review has arrived or, if there is none, the
// oldest. So callers that open connections and send nothing lose their own connections and not those of an API server.
type connections struct {
	net.Listener
	most int
	// evicted is called for each connection that is closed to make room for a new one.
	evicted func()

	mu      sync.Mutex
	open    int
	clients map[string]*list.List // of *connection by address, the oldest first
}

// connection is one connection of a client.
type connection struct {
	net.Conn
	all     *connections
	client  string
	place   *list.Element // nil after it was closed; connections.mu guards it
	useful  bool          // whether a complete review has arrived over it; connections.mu guards it
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
		_ = victim.Close() // only the client of this connection is affected
		c.evicted()
	}
	return entering, nil
}

// enter records a connection. It returns the connection that the caller must close to make room, or nil if there is
// room.
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

// victim returns the connection to replace. The caller holds c.mu, and at least one connection is open.
func (c *connections) victim() *connection {
	var largest *list.List
	for _, open := range c.clients {
		if largest == nil || open.Len() > largest.Len() {
			largest = open
		}
	}
	for e := largest.Front(); e != nil; e = e.Next() {
		if candidate := e.Value.(*connection); !candidate.useful { //nolint:forcetypeassert // the lists hold only *connection
			return candidate
		}
	}
	return largest.Front().Value.(*connection) //nolint:forcetypeassert // as above
}

// leave removes a connection from the records. The caller holds c.mu.
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

// Close closes the connection. Further calls return the result of the first one.
func (c *connection) Close() error {
	c.closing.Do(func() {
		c.all.mu.Lock()
		c.all.leave(c)
		c.all.mu.Unlock()
		c.err = c.Conn.Close()
	})
	return c.err
}

// noteReview records that a complete review has arrived over the connection of a request.
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

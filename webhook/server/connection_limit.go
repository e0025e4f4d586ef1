package server

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

// limitedListener is a listener that limits the number of open connections. At the limit, a new connection replaces one of
// the client address that has the most: the oldest over which no complete review has arrived or, if there is none, the
// oldest. So callers that open connections and send nothing lose their own connections and not those of an API server.
type limitedListener struct {
	net.Listener
	limit int
	// evicted is called for each connection that is closed to make room for a new one.
	evicted func()

	mu      sync.Mutex
	open    int
	clients map[string]*list.List // of *limitedConn by address, the oldest first
}

// limitedConn is one connection of a client.
type limitedConn struct {
	net.Conn
	listener  *limitedListener
	client    string
	element   *list.Element // nil after it was closed; limitedListener.mu guards it
	hasReview bool          // whether a complete review has arrived over it; limitedListener.mu guards it
	closing   sync.Once
	err       error
}

func newLimitedListener(listener net.Listener, limit int, evicted func()) *limitedListener {
	return &limitedListener{Listener: listener, limit: limit, evicted: evicted, clients: map[string]*list.List{}}
}

// Accept waits for the next connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	client, _, err := net.SplitHostPort(accepted.RemoteAddr().String())
	if err != nil {
		client = accepted.RemoteAddr().String()
	}
	limited := &limitedConn{Conn: accepted, listener: l, client: client}
	if victim := l.add(limited); victim != nil {
		_ = victim.Close() // only the client of this connection is affected
		l.evicted()
	}
	return limited, nil
}

// add records a connection. It returns the connection that the caller must close to make room, or nil if there is
// room.
func (l *limitedListener) add(added *limitedConn) (victim *limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.limit {
		victim = l.evictionCandidate()
		l.remove(victim)
	}
	if l.clients[added.client] == nil {
		l.clients[added.client] = list.New()
	}
	added.element = l.clients[added.client].PushBack(added)
	l.open++
	return victim
}

// evictionCandidate returns the connection to replace. The caller holds l.mu, and at least one connection is open.
func (l *limitedListener) evictionCandidate() *limitedConn {
	var largest *list.List
	for _, open := range l.clients {
		if largest == nil || open.Len() > largest.Len() {
			largest = open
		}
	}
	for e := largest.Front(); e != nil; e = e.Next() {
		if candidate := e.Value.(*limitedConn); !candidate.hasReview { //nolint:forcetypeassert // the lists hold only *limitedConn
			return candidate
		}
	}
	return largest.Front().Value.(*limitedConn) //nolint:forcetypeassert // as above
}

// remove removes a connection from the records. The caller holds l.mu.
func (l *limitedListener) remove(removed *limitedConn) {
	if removed.element == nil {
		return
	}
	siblings := l.clients[removed.client]
	siblings.Remove(removed.element)
	removed.element = nil
	if siblings.Len() == 0 {
		delete(l.clients, removed.client)
	}
	l.open--
}

// Close closes the connection. Further calls return the result of the first one.
func (c *limitedConn) Close() error {
	c.closing.Do(func() {
		c.listener.mu.Lock()
		c.listener.remove(c)
		c.listener.mu.Unlock()
		c.err = c.Conn.Close()
	})
	return c.err
}

// markReviewReceived records that a complete review has arrived over the connection of a request.
func markReviewReceived(ctx context.Context) {
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	if limited, ok := conn.(*limitedConn); ok {
		limited.listener.mu.Lock()
		defer limited.listener.mu.Unlock()
		limited.hasReview = true
	}
}

package install

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
)

// Balancer is in front of the webhooks of a worker, like a Service: each new connection goes to the next replica that accepts it.
type Balancer struct {
	listener net.Listener
	replicas *Replicas
	running  sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

const dialTimeout = time.Second

// NewBalancer listens on a free port. The replicas, as host:port, may change over time.
func NewBalancer(replicas func() []string) (*Balancer, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(port.Host, strconv.Itoa(0)))
	if err != nil {
		return nil, fmt.Errorf("listen for the webhooks: %w", err)
	}
	b := &Balancer{listener: listener, replicas: NewReplicas(replicas), conns: map[net.Conn]struct{}{}}
	b.running.Go(b.serve)
	return b, nil
}

// ExternalAddress returns the address that API servers use for the webhooks.
func (b *Balancer) ExternalAddress() string {
	_, number, _ := net.SplitHostPort(b.listener.Addr().String()) // a listener's address has a port
	return net.JoinHostPort(ExternalHost, number)
}

// ExternalHost reaches the loopback interface but is not a loopback address. API servers use HTTP/2 for loopback addresses, which
// they never do for a real webhook.
const ExternalHost = "0.0.0.0"

func (b *Balancer) serve() {
	for {
		client, err := b.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			b.running.Go(func() { b.forward(client) })
		}
	}
}

// forward copies data between a client and a replica until one of them closes.
func (b *Balancer) forward(client net.Conn) {
	defer client.Close()
	server, err := b.replicas.Dial()
	if err != nil || !b.track(client, server) {
		return
	}
	defer b.untrack(client, server)
	Join(client, server)
}

// Join copies data between two connections until one of them closes, and closes both.
func Join(a, b net.Conn) {
	var running sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{a: b, b: a} {
		running.Go(func() {
			_, _ = io.Copy(to, from) // closing both connections ends both copies
			_ = to.Close()
			_ = from.Close()
		})
	}
	running.Wait()
}

// Replicas are the ready webhooks of a cluster.
type Replicas struct {
	list func() []string
	next atomic.Uint64
}

// NewReplicas returns those that list returns, as host:port. They may change over time.
func NewReplicas(list func() []string) *Replicas { return &Replicas{list: list} }

// Dial connects to the next replica that accepts a connection.
func (r *Replicas) Dial() (conn net.Conn, err error) {
	replicas := r.list()
	err = errors.New("no webhook is ready")
	for range replicas {
		if conn, err = net.DialTimeout("tcp", replicas[r.next.Add(1)%uint64(len(replicas))], dialTimeout); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

func (b *Balancer) track(conns ...net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range conns {
		if b.closed {
			_ = conn.Close()
			continue
		}
		b.conns[conn] = struct{}{}
	}
	return !b.closed
}

func (b *Balancer) untrack(conns ...net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
		delete(b.conns, conn)
	}
}

// Close ends all connections and returns when all goroutines have ended.
func (b *Balancer) Close() {
	_ = b.listener.Close()
	b.mu.Lock()
	b.closed = true
	for conn := range b.conns {
		_ = conn.Close()
	}
	b.mu.Unlock()
	b.running.Wait()
}

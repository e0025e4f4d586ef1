package sharding_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/breakwater-k8s/breakwater/api/sharding"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// tcpProxy is a TCP proxy to an API server.
type tcpProxy struct {
	net.Listener
	mu sync.Mutex
	// blocked connections stay open but carry no data.
	blocked chan struct{}
}

func newTCPProxy(t *testing.T, to string) *tcpProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &tcpProxy{Listener: listener, blocked: make(chan struct{})}
	t.Cleanup(func() { w.Close() })
	go func() {
		for {
			from, err := w.Accept()
			if err != nil {
				return
			}
			w.mu.Lock()
			blocked := w.blocked
			w.mu.Unlock()
			go func() {
				into, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(into, blockingReader{from, blocked}) }()
				_, _ = io.Copy(from, blockingReader{into, blocked})
			}()
		}
	}()
	return w
}

// block stops the data of all existing connections. New connections work.
func (w *tcpProxy) block() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.blocked)
	w.blocked = make(chan struct{})
}

// blockingReader reads from a connection until it is blocked, and then never returns.
type blockingReader struct {
	net.Conn
	blocked chan struct{}
}

func (u blockingReader) Read(content []byte) (int, error) {
	n, err := u.Conn.Read(content)
	select {
	case <-u.blocked:
		select {}
	default:
		return n, err
	}
}

func TestLeaseIsRenewedAfterADeadConnection(t *testing.T) {
	t.Parallel()
	r := newRing(t, 6)
	to := newTCPProxy(t, strings.TrimPrefix(testplane.Config(t).Host, "https://"))
	r.account = rest.CopyConfig(r.account)
	r.account.Host = "https://" + to.Addr().String()
	s := r.runShard("a", nil)
	to.block()
	end := time.Now().Add(12 * time.Second)
	testplane.Eventually(t, func() string {
		if !s.Held() {
			t.Fatal("the Lease is lost")
		}
		if renewed := r.lease("a").Spec.RenewTime; renewed.Time.Before(end) {
			return "the Lease was renewed at " + renewed.String()
		}
		return ""
	})
}

// createUnfenced writes without the fence of a client.
func createUnfenced(to client.Client, name string) error {
	return to.Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "sneaked"}})
}

func TestConnectionSendsNothingAfterTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	r := newRing(t, 10)
	s, err := sharding.New(t.Context(), r.account, sharding.Options{Ring: r.name, Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	var bare client.Client
	options := manager.Options{Metrics: metricsserver.Options{BindAddress: "0"}}
	options.NewClient = func(config *rest.Config, of client.Options) (client.Client, error) {
		bare, err = client.New(config, of)
		return bare, err
	}
	mgr, err := s.NewManager(options)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(context.WithoutCancel(t.Context())) }()
	<-mgr.Elected()
	if err := createUnfenced(bare, r.name); err != nil {
		t.Errorf("while the Lease is held: %v", err)
	}
	r.setHolder("a", "")
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "did not renew") {
		t.Errorf("the manager ended with %v", err)
	}
	if err := createUnfenced(bare, r.name); !errors.Is(err, sharding.ErrNotHeld) {
		t.Errorf("when it is lost: %v", err)
	}
}

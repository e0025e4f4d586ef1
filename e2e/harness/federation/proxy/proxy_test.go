package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/proxy"
)

// noDataTime is how long a test checks that no data arrives. If it is too short, a test can pass wrongly but never fail
// wrongly.
const noDataTime = 100 * time.Millisecond

// waitTimeout bounds each wait.
const waitTimeout = 30 * time.Second

// proxiedConnection is a connection through a proxy, with both ends.
type proxiedConnection struct {
	proxy          *proxy.Proxy
	listener       net.Listener
	client, server net.Conn
}

func connect(t *testing.T) *proxiedConnection {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	p, err := proxy.Start(t.Context(), listener.Addr().String())
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	c := &proxiedConnection{proxy: p, listener: listener}
	c.client, c.server = c.dial(t)
	return c
}

func (c *proxiedConnection) dial(t *testing.T) (client, server net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp4", c.proxy.Address())
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	must(t, c.listener.(*net.TCPListener).SetDeadline(time.Now().Add(waitTimeout)))
	server, err = c.listener.Accept()
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

func TestForwardsBothDirectionsAndTheirEnds(t *testing.T) {
	c := connect(t)
	send(t, c.client, "question")
	receive(t, c.server, "question")
	must(t, c.client.(*net.TCPConn).CloseWrite())
	wantEOF(t, c.server)
	send(t, c.server, "answer")
	receive(t, c.client, "answer")
	must(t, c.server.Close())
	wantEOF(t, c.client)
}

func TestForwardsLargeStreams(t *testing.T) {
	c := connect(t)
	sent := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB, more than all buffers between
	go func() {
		_, _ = io.WriteString(c.client, sent)
		_ = c.client.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c.server)
	must(t, err)
	if string(got) != sent {
		t.Errorf("%d bytes arrived, want %d", len(got), len(sent))
	}
}

func TestDelay(t *testing.T) {
	for claim, test := range map[string]struct {
		direction          proxy.Direction
		toServer, toClient bool
	}{
		"to the server":   {proxy.ToServer, true, false},
		"to the client":   {proxy.ToClient, false, true},
		"both directions": {proxy.Both, true, true},
	} {
		t.Run(claim, func(t *testing.T) {
			c := connect(t)
			const by = 150 * time.Millisecond
			c.proxy.Delay(test.direction, by)
			takes := func(from, to net.Conn) time.Duration {
				began := time.Now()
				send(t, from, "x")
				receive(t, to, "x")
				return time.Since(began)
			}
			// Only the lower bound can be asserted. TestStall checks that the other direction is not delayed.
			if took := takes(c.client, c.server); test.toServer && took < by {
				t.Errorf("data took %s to the server, want at least %s", took, by)
			}
			if took := takes(c.server, c.client); test.toClient && took < by {
				t.Errorf("data took %s to the client, want at least %s", took, by)
			}
		})
	}
	t.Run("keeps the order when the delay is shortened", func(t *testing.T) {
		c := connect(t)
		c.proxy.Delay(proxy.Both, noDataTime)
		send(t, c.client, "first ")
		wantNoData(t, c.server, noDataTime/4)
		c.proxy.Delay(proxy.Both, 0)
		send(t, c.client, "second")
		receive(t, c.server, "first second")
	})
}

func TestStall(t *testing.T) {
	c := connect(t)
	c.proxy.Stall(proxy.ToServer)
	send(t, c.client, "held ")
	wantNoData(t, c.server, noDataTime)
	send(t, c.server, "the other way is open")
	receive(t, c.client, "the other way is open")

	t.Run("accepts new connections", func(t *testing.T) {
		client, server := c.dial(t)
		send(t, client, "held too")
		wantNoData(t, server, noDataTime)
		must(t, c.proxy.Heal(t.Context()))
		receive(t, server, "held too")
	})
	t.Run("delivers held data in order when it is healed", func(t *testing.T) {
		send(t, c.client, "back")
		receive(t, c.server, "held back")
	})
	t.Run("holds the end of a stream as well", func(t *testing.T) {
		c.proxy.Stall(proxy.Both)
		must(t, c.client.(*net.TCPConn).CloseWrite())
		wantNoData(t, c.server, noDataTime)
		must(t, c.proxy.Heal(t.Context()))
		wantEOF(t, c.server)
	})
}

func TestCutBothResetsAndRefusesUntilHealed(t *testing.T) {
	c := connect(t)
	c.proxy.Stall(proxy.Both)
	send(t, c.client, "lost")
	must(t, c.proxy.Cut(proxy.Both))
	for name, conn := range map[string]net.Conn{"client": c.client, "server": c.server} {
		must(t, conn.SetReadDeadline(time.Now().Add(waitTimeout)))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the %s got %v, want a reset", name, err)
		}
	}
	if _, err := net.Dial("tcp4", c.proxy.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection got %v, want connection refused", err)
	}
	must(t, c.proxy.Heal(t.Context()))
	client, server := c.dial(t)
	send(t, client, "again")
	receive(t, server, "again")
}

func TestCutOfOneDirectionKeepsTheOther(t *testing.T) {
	c := connect(t)
	must(t, c.proxy.Cut(proxy.ToServer))
	wantEOF(t, c.server)
	send(t, c.client, "into nothing")
	send(t, c.server, "still here")
	receive(t, c.client, "still here")

	client, server := c.dial(t)
	wantEOF(t, server)
	send(t, server, "new ones too")
	receive(t, client, "new ones too")

	must(t, c.proxy.Heal(t.Context()))
	send(t, c.client, "an ended stream stays ended")
	wantEOF(t, c.server)
	client, server = c.dial(t)
	send(t, client, "healed")
	receive(t, server, "healed")
}

func TestUnreachableServer(t *testing.T) {
	c := connect(t)
	must(t, c.listener.Close())
	client, err := net.Dial("tcp4", c.proxy.Address())
	if err == nil { // the reset may come before the connection is reported
		defer func() { _ = client.Close() }()
		must(t, client.SetReadDeadline(time.Now().Add(waitTimeout)))
		_, err = client.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client got %v, want a reset", err)
	}
}

func TestResetIsForwarded(t *testing.T) {
	c := connect(t)
	must(t, c.server.(*net.TCPConn).SetLinger(0))
	must(t, c.server.Close())
	must(t, c.client.SetReadDeadline(time.Now().Add(waitTimeout)))
	if _, err := c.client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client got %v, want a reset", err)
	}
}

func TestCloseEndsAllConnectionsAndIsIdempotent(t *testing.T) {
	c := connect(t)
	c.proxy.Stall(proxy.Both)
	send(t, c.client, "never seen")
	must(t, c.proxy.Close())
	must(t, c.proxy.Close())
	if err := c.proxy.Heal(context.Background()); err == nil {
		t.Error("Heal() of a closed proxy returned no error")
	}
	if _, err := net.Dial("tcp4", c.proxy.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection got %v, want connection refused", err)
	}
}

func send(t *testing.T, to net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(to, text)
	must(t, err)
}

func receive(t *testing.T, from net.Conn, want string) {
	t.Helper()
	must(t, from.SetReadDeadline(time.Now().Add(waitTimeout)))
	got := make([]byte, len(want))
	if n, err := io.ReadFull(bufio.NewReaderSize(from, 1), got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v; want %q", got[:n], err, want)
	}
}

func wantNoData(t *testing.T, from net.Conn, duration time.Duration) {
	t.Helper()
	must(t, from.SetReadDeadline(time.Now().Add(duration)))
	if n, err := from.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %d bytes, %v; want nothing", n, err)
	}
}

func wantEOF(t *testing.T, from net.Conn) {
	t.Helper()
	must(t, from.SetReadDeadline(time.Now().Add(waitTimeout)))
	if n, err := from.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("got %d bytes, %v; want the end", n, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

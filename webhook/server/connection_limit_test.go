package server

import (
	"context"
	"net"
	"testing"
)

// connFrom is a connection from a client address.
type connFrom struct {
	net.Conn
	address string
}

func (f *connFrom) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.address), Port: 1} }

func TestConnectionEviction(t *testing.T) {
	const apiserver, attacker = "10.0.0.1", "10.0.0.66"
	evictions := 0
	listener := newPipes()
	all := newLimitedListener(listener, 5, func() { evictions++ })
	accept := func(address string) net.Conn {
		t.Helper()
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _ = theirs.Close() })
		go func() { listener.conns <- &connFrom{ours, address} }()
		conn, err := all.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	review := func(conn net.Conn) { markReviewReceived(context.WithValue(t.Context(), connKey{}, conn)) }
	closed := func(conn net.Conn) bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return conn.(*limitedConn).element == nil
	}
	want := func(claim string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: closed %t, want %t", claim, got, want)
		}
	}

	first, second := accept(apiserver), accept(apiserver)
	review(first)
	stalled, reviewed, third := accept(attacker), accept(attacker), accept(attacker)
	review(reviewed)
	if evictions != 0 {
		t.Fatalf("%d connections were closed within the bound, want 0", evictions)
	}
	fourth := accept(attacker)
	want("the oldest of the largest client over which nothing came", closed(stalled), true)
	accept(attacker)
	want("one over which a review came", closed(reviewed), false)
	want("the next over which nothing came", closed(third), true)
	want("the connection of the API server over which nothing came", closed(second), false)
	review(fourth)
	if evictions != 2 || all.open != 5 {
		t.Errorf("%d connections were closed and %d are open, want 2 and 5", evictions, all.open)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	_ = first.Close() // a second Close has no effect
	accept(apiserver)
	if evictions != 2 || all.open != 5 {
		t.Errorf("after one was closed: %d evictions and %d open connections, want 2 and 5", evictions, all.open)
	}
}

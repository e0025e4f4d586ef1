package port_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
)

func TestReservation(t *testing.T) {
	r, err := port.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	refuses := func(when string) {
		t.Helper()
		if _, err := net.Dial("tcp4", r.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, want the connection refused", when, err)
		}
	}
	refuses("before a process listens")
	if l, err := net.Listen("tcp4", r.Address()); err == nil {
		_ = l.Close()
		t.Error("a listener without SO_REUSEPORT got the reserved port")
	}
	for range 2 {
		l, err := r.Listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp4", r.Address())
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		for _, end := range []interface{ Close() error }{accepted, c, l} {
			if err := end.Close(); err != nil {
				t.Error(err)
			}
		}
		refuses("after the listener is closed")
	}
	if err := r.Release(); err != nil {
		t.Error(err)
	}
}

func TestReservationsNeverShareAPort(t *testing.T) {
	taken := map[int]bool{}
	for range 200 {
		r, err := port.Reserve()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Release() })
		if taken[r.Number()] {
			t.Fatalf("port %d was reserved twice", r.Number())
		}
		taken[r.Number()] = true
	}
}

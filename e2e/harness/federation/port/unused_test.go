package port

import (
	"net"
	"testing"
)

func TestPortWithListenerIsNotUnused(t *testing.T) {
	listener, err := net.Listen("tcp4", net.JoinHostPort(Host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	c := &Claim{number: listener.Addr().(*net.TCPAddr).Port}
	if err := c.checkUnused(); err == nil {
		t.Error("checkUnused() returned no error for a port with a listener")
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.checkUnused(); err != nil {
		t.Errorf("checkUnused() after the listener closed: %v", err)
	}
}

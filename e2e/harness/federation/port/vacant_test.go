package port

import (
	"net"
	"testing"
)

func TestAPortThatSomebodyListensOnIsNotVacant(t *testing.T) {
	listener, err := net.Listen("tcp4", net.JoinHostPort(Host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	c := &Claim{number: listener.Addr().(*net.TCPAddr).Port}
	if err := c.vacant(); err == nil {
		t.Error("it is vacant")
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.vacant(); err != nil {
		t.Errorf("nobody listens any more: %v", err)
	}
}

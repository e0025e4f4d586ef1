package port

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Linux uses the ports from 32768 on, and macOS those from 49152 on, for outgoing connections. A port from that range
// could be in use before its server listens.
const firstPort, portCount = 10_000, 20_000

// Claim reserves a port for a server that does not use SO_REUSEPORT: the port is free until the server listens, and while it restarts.
// A claim binds the UDP port of the same number, which TCP servers do not need and the kernel gives to one process only. So no other
// process on the machine can claim the port until Release or the end of this process.
type Claim struct {
	marker net.PacketConn
	number int
}

// NewClaim claims a free port.
func NewClaim() (*Claim, error) {
	var err error
	for range 1000 { // far more than are in use on a machine that can run a federation
		c := &Claim{number: firstPort + rand.IntN(portCount)} //nolint:gosec // it must differ, not be secret
		if c.marker, err = net.ListenPacket("udp4", c.Address()); err != nil {
			continue
		}
		if err = c.checkUnused(); err == nil {
			return c, nil
		}
		c.Release()
	}
	return nil, fmt.Errorf("claim a port: %w", err)
}

// checkUnused returns an error if a process listens on the port without a claim.
func (c *Claim) checkUnused() error {
	listener, err := net.Listen("tcp4", c.Address())
	if err != nil {
		return err
	}
	return listener.Close()
}

// Number returns the port's number.
func (c *Claim) Number() int { return c.number }

// Address returns host:port.
func (c *Claim) Address() string { return net.JoinHostPort(Host, strconv.Itoa(c.number)) }

// Release releases the port. The caller must not use it any more.
func (c *Claim) Release() { _ = c.marker.Close() } // no data was sent

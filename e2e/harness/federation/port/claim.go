package port

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Linux gives the ports from 32768 on, and macOS those from 49152 on, to whoever connects to somebody: a port that is drawn from there
// could be in use before its server listens.
const first, ports = 10_000, 20_000

// Claim keeps a port for a server that shares ports with nobody, as most do: the port is free until the server listens, and while it is
// restarted. The sign of a claim is the UDP port of the same number, which servers of TCP do not mind and the kernel gives once: no other
// process that claims ports is given this one, whoever runs it and from wherever, until Release or the end of this process.
type Claim struct {
	sign   net.PacketConn
	number int
}

// Take claims a free port.
func Take() (*Claim, error) {
	var err error
	for range 1000 { // far more than are in use where a federation can still run
		c := &Claim{number: first + rand.IntN(ports)} //nolint:gosec // it must differ, not be secret
		if c.sign, err = net.ListenPacket("udp4", c.Address()); err != nil {
			continue
		}
		if err = c.vacant(); err == nil {
			return c, nil
		}
		c.Release()
	}
	return nil, fmt.Errorf("claim a port: %w", err)
}

// vacant is an error if somebody listens on the port, who knows of no claims.
func (c *Claim) vacant() error {
	listener, err := net.Listen("tcp4", c.Address())
	if err != nil {
		return err
	}
	return listener.Close()
}

// Number is the port's number.
func (c *Claim) Number() int { return c.number }

// Address is host:port.
func (c *Claim) Address() string { return net.JoinHostPort(Host, strconv.Itoa(c.number)) }

// Release gives the port up. It must not be used any more.
func (c *Claim) Release() { _ = c.sign.Close() } // nothing was sent by it

package sharding

import (
	"context"
	"fmt"
	"net"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fencedConnections returns a constructor of clients whose connections send nothing once the Lease is lost. A process can pause
// between the check that allows a write and the moment it sends the write. This check in the connection shortens the gap to a few
// instructions.
func (h *leaseHold) fencedConnections(make client.NewClientFunc, keepConnections bool) client.NewClientFunc {
	return func(config *rest.Config, options client.Options) (client.Client, error) {
		if keepConnections || config.Transport != nil {
			return make(config, options)
		}
		config = rest.CopyConfig(config)
		config.Dial = h.dial(config.Dial)
		var err error
		if options.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
			return nil, fmt.Errorf("connections of the shard's client: %w", err)
		}
		return make(config, options)
	}
}

type dial = func(ctx context.Context, network, address string) (net.Conn, error)

func (h *leaseHold) dial(inner dial) dial {
	if inner == nil {
		inner = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := inner(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return fencedConnection{Conn: connection, hold: h}, nil
	}
}

type fencedConnection struct {
	net.Conn
	hold *leaseHold
}

func (c fencedConnection) Write(content []byte) (int, error) {
	if lost := c.hold.Lost(); lost != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotHeld, lost)
	}
	return c.Conn.Write(content)
}

package aggregator

import (
	"context"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// Membership is this process's place in a ring, by which it shares cells out with other shards.
type Membership interface {
	// Ring and Name are the ring's name and the shard's.
	Ring() string
	Name() string
	// Join waits until this process is the shard.
	Join(ctx context.Context) (*Tenancy, error)
	// Shards are those of the ring that slots can be with; ok is false while that is not known.
	Shards(ctx context.Context) (shards *ring.Shards, ok bool)
	// IsGone asks the apiserver itself whether a shard certainly does not work: its Lease was given up, or has been away for long.
	IsGone(ctx context.Context, shard string) (bool, error)
	// Tell calls somebody whenever Shards may be others, until forget is called. It must not block.
	Tell(changed func()) (forget func())
}

// Tenancy is one incarnation of a shard: the time for which a process holds its Lease.
type Tenancy struct {
	// Holder is the incarnation. No other ever has the same.
	Holder string
	// Context ends when the Lease was given up, taken away or not renewed in time.
	Context context.Context //nolint:containedctx // it is the tenancy
	// Held tells whether the Lease may still be relied on at this moment.
	Held func() bool
	// Done must be called when all that went by it has ended: then the Lease is given up.
	Done func()
}

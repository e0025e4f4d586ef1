package ownership

import (
	"context"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// Membership is this process's place in a ring, through which it shares cells with other shards.
type Membership interface {
	// Ring and Name return the names of the ring and of the shard.
	Ring() string
	Name() string
	// Join waits until this process is the shard.
	Join(ctx context.Context) (*Incarnation, error)
	// Shards returns the shards of the ring that can have slots; ok is false while they are unknown.
	Shards(ctx context.Context) (shards *ring.Shards, ok bool)
	// IsStopped asks the API server whether a shard has certainly stopped: its Lease was released, or has not been renewed for long.
	IsStopped(ctx context.Context, shard string) (bool, error)
	// OnChange calls changed whenever the result of Shards may have changed, until forget is called. changed must not block.
	OnChange(changed func()) (forget func())
}

// Incarnation is one incarnation of a shard: the time for which a process holds its Lease.
type Incarnation struct {
	// Holder identifies the incarnation. No two incarnations have the same Holder.
	Holder string
	// Context ends when the Lease was released, taken by another process or not renewed in time.
	Context context.Context //nolint:containedctx // its lifetime is that of the tenancy
	// IsHeld reports whether the process may still rely on the Lease at this moment.
	IsHeld func() bool
	// Done must be called when all work under the tenancy has ended. The Lease is then released.
	Done func()
}

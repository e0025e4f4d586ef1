package sharding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/api/sharding/leaseholder"
)

// release releases the Lease when no work and no write is in progress any more. Otherwise the Lease is left to expire, because the
// next holder could meet a write that has yet to take effect.
func (l *lock) release(ctx context.Context) error {
	l.hold.end(errStopped)
	why := l.hold.Lost()
	isRevoked := errors.Is(why, errRevoked)
	if why != nil && !isRevoked {
		return why
	}
	if !isRevoked { // a revoked Lease has no other holder, however long this takes
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, l.hold.expiry())
		defer cancel()
	}
	if err := l.work.waitIdle(ctx, l.duration); err != nil {
		return fmt.Errorf("the Lease is not released: %w", err)
	}
	holder := ""
	if l.stable && !isRevoked {
		holder = leaseholder.Returning(l.name)
	}
	lease := l.lease.DeepCopy()
	l.setHolder(lease, holder, time.Now())
	ctx, cancel := l.withRequestTimeout(ctx)
	defer cancel()
	return l.client.Update(ctx, lease)
}

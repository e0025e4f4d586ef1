package sharding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// giveUp lets others have the Lease when nothing is worked on any more and no write is under way. Otherwise it is left to lapse: who
// comes next would meet what is still to take effect.
func (l *lock) giveUp(ctx context.Context) error {
	l.hold.end(errStopped)
	why := l.hold.Lost()
	isRevoked := errors.Is(why, errRevoked)
	if why != nil && !isRevoked {
		return why
	}
	if !isRevoked { // and then it is nobody's, however long it takes
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, l.hold.until())
		defer cancel()
	}
	if err := l.work.rest(ctx, l.duration); err != nil {
		return fmt.Errorf("the Lease is not given up: %w", err)
	}
	holder := ""
	if l.stable && !isRevoked {
		holder = ring.Returning(l.name)
	}
	lease := l.lease.DeepCopy()
	l.take(lease, holder, time.Now())
	ctx, cancel := l.bound(ctx)
	defer cancel()
	return l.client.Update(ctx, lease)
}

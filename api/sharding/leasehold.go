package sharding

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrNotHeld is returned for operations that require the Lease while the shard does not hold it. The reason is wrapped as well.
var ErrNotHeld = errors.New("the shard does not hold its Lease")

var (
	errNotJoined = errors.New("it has not joined its ring yet")
	errStopped   = errors.New("it has stopped")
	errDeleted   = errors.New("its Lease was deleted, and its objects are assigned to other shards")
	errTaken     = errors.New("its Lease was revoked because the shard did not renew it, and its objects are assigned to other shards")
	errRevoked   = errors.New("it was removed from its ring, because it did not release an object within drainTimeoutSeconds")
)

// leaseHold is the local view of a shard's claim to its Lease. It uses only the clock of its own machine. A hold that has ended never
// begins again: another process may have worked in between, and must not meet a second hold of this one.
type leaseHold struct {
	// duration is how long the Lease is held after a renewal was sent.
	duration time.Duration
	// ended ends with the hold. Its cause is the reason.
	ended context.Context
	end   context.CancelCauseFunc

	mu sync.Mutex
	// sent is when the last successful renewal was sent; zero before the first.
	sent        time.Time
	expiryTimer *time.Timer
}

func newLeaseHold(duration time.Duration) *leaseHold {
	h := &leaseHold{duration: duration}
	h.ended, h.end = context.WithCancelCause(context.Background())
	return h
}

// elapsed is the time between two readings of the clock. The monotonic clock stops while a machine is suspended, and the wall
// clock can be set. elapsed uses the longer of the two intervals, so that an error ends a hold too early and never too late.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// recordRenewal records that a renewal that was sent at that time succeeded. The error says why it was too late.
func (h *leaseHold) recordRenewal(sent time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.sent.IsZero() {
		if err := h.lostLocked(); err != nil {
			return err
		}
	}
	h.sent = sent
	if err := h.lostLocked(); err != nil {
		return err
	}
	if h.expiryTimer != nil {
		h.expiryTimer.Stop()
	}
	h.expiryTimer = time.AfterFunc(h.duration-elapsed(sent, time.Now()), func() { _ = h.err() })
	return nil
}

// lostLocked returns why the hold was lost, and ends the hold if its time has expired. A shard that has stopped has not lost its hold.
func (h *leaseHold) lostLocked() error {
	if why := context.Cause(h.ended); why != nil && !errors.Is(why, errStopped) {
		return why
	}
	if h.sent.IsZero() || elapsed(h.sent, time.Now()) < h.duration {
		return nil
	}
	why := fmt.Errorf("its Lease was not renewed for %s, because the API server was unreachable or the process was suspended", h.duration)
	h.end(why)
	return why
}

// Lost returns why the Lease was lost. It returns nil if it was not lost, also before the shard has joined and after it has
// stopped.
func (h *leaseHold) Lost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lostLocked()
}

// err returns why the Lease is not held now.
func (h *leaseHold) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	why := h.lostLocked()
	switch {
	case why != nil:
	case h.ended.Err() != nil:
		why = context.Cause(h.ended)
	case h.sent.IsZero():
		why = errNotJoined
	default:
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotHeld, why)
}

// hasJoined reports whether the Lease was ever held.
func (h *leaseHold) hasJoined() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.sent.IsZero()
}

// expiry returns when the hold ends unless it is renewed.
func (h *leaseHold) expiry() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent.Add(h.duration)
}

// context returns a context that also ends with the hold.
func (h *leaseHold) context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(h.ended, func() { cancel(h.err()) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

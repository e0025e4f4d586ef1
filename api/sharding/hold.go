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
	errNotYet  = errors.New("it has not joined its ring yet")
	errStopped = errors.New("it has stopped")
	errDeleted = errors.New("its Lease was deleted, and its objects are others'")
	errBuried  = errors.New("its Lease was taken from it, as it had fallen silent, and its objects are others'")
	errRevoked = errors.New("it was put out of its ring, as it took longer than drainTimeoutSeconds to let go of an object")
)

// hold is the local view of a shard's claim to its Lease. It uses only the clock of its own machine. A hold that has ended never
// begins again: another process may have worked in between, and must not meet a second hold of this one.
type hold struct {
	// duration is how long the Lease is held after a renewal was sent.
	duration time.Duration
	// over ends with the hold. Its cause is the reason.
	over context.Context
	end  context.CancelCauseFunc

	mu sync.Mutex
	// sent is when the last successful renewal was sent; zero before the first.
	sent  time.Time
	lapse *time.Timer
}

func newHold(duration time.Duration) *hold {
	h := &hold{duration: duration}
	h.over, h.end = context.WithCancelCause(context.Background())
	return h
}

// elapsed is the time between two readings of the clock. The monotonic clock stops while a machine is suspended, and the wall
// clock can be set. elapsed uses the longer of the two intervals, so that an error ends a hold too early and never too late.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// renewed records that a renewal that was sent at that time succeeded. The error says why it was too late.
func (h *hold) renewed(sent time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.sent.IsZero() {
		if err := h.lost(); err != nil {
			return err
		}
	}
	h.sent = sent
	if err := h.lost(); err != nil {
		return err
	}
	if h.lapse != nil {
		h.lapse.Stop()
	}
	h.lapse = time.AfterFunc(h.duration-elapsed(sent, time.Now()), func() { _ = h.err() })
	return nil
}

// lost returns why the hold was lost, and ends the hold if its time has expired. A shard that has stopped has not lost its hold.
func (h *hold) lost() error {
	if why := context.Cause(h.over); why != nil && !errors.Is(why, errStopped) {
		return why
	}
	if h.sent.IsZero() || elapsed(h.sent, time.Now()) < h.duration {
		return nil
	}
	why := fmt.Errorf("its Lease was not renewed for %s, as the apiserver could not be reached or the process stood still", h.duration)
	h.end(why)
	return why
}

// Lost returns why the Lease was lost. It returns nil if it was not lost, also before the shard has joined and after it has
// stopped.
func (h *hold) Lost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost()
}

// err returns why the Lease is not held now.
func (h *hold) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	why := h.lost()
	switch {
	case why != nil:
	case h.over.Err() != nil:
		why = context.Cause(h.over)
	case h.sent.IsZero():
		why = errNotYet
	default:
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotHeld, why)
}

// joined reports whether the Lease was ever held.
func (h *hold) joined() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.sent.IsZero()
}

// until returns when the hold ends unless it is renewed.
func (h *hold) until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent.Add(h.duration)
}

// context returns a context that also ends with the hold.
func (h *hold) context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(h.over, func() { cancel(h.err()) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

package sharding

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrNotHeld is the error of what a shard may only do while it holds its Lease. The reason is wrapped beside it.
var ErrNotHeld = errors.New("the shard does not hold its Lease")

var (
	errNotYet  = errors.New("it has not joined its ring yet")
	errStopped = errors.New("it has stopped")
	errDeleted = errors.New("its Lease was deleted, and its objects are others'")
	errBuried  = errors.New("its Lease was taken from it, as it had fallen silent, and its objects are others'")
	errRevoked = errors.New("it was put out of its ring, as it took longer than drainTimeoutSeconds to let go of an object")
)

// hold is what a shard knows of its hold on the Lease, by no other clock than that of its own machine. Once it has ended it never
// begins again: whoever worked meanwhile must not meet a second one.
type hold struct {
	// duration is how long the Lease is held after a renewal was sent.
	duration time.Duration
	// over ends with the hold, and its cause is the reason.
	over context.Context
	end  context.CancelCauseFunc

	mu sync.Mutex
	// sent is when the last renewal was sent that succeeded; zero before the first.
	sent  time.Time
	lapse *time.Timer
}

func newHold(duration time.Duration) *hold {
	h := &hold{duration: duration}
	h.over, h.end = context.WithCancelCause(context.Background())
	return h
}

// elapsed is the time between two readings of the clock. The monotonic clock stands still while a machine is suspended, and the other
// one can be set: what is longer counts, so that a mistake ends a hold too early and never too late.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// renewed takes in that a renewal succeeded which was sent then. The error says why it came too late.
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

// lost tells why the hold has ended, or ends it when its time is over. A shard that has stopped has not lost it.
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

// Lost tells why the Lease was lost; nil when it was not, also before the shard has joined and when it has stopped.
func (h *hold) Lost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost()
}

// err tells why the Lease is not held now.
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

// joined tells whether the Lease was ever held.
func (h *hold) joined() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.sent.IsZero()
}

// until is when the hold ends unless it is renewed.
func (h *hold) until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent.Add(h.duration)
}

// context is one that ends with the hold as well.
func (h *hold) context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(h.over, func() { cancel(h.err()) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

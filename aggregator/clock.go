package aggregator

import (
	"sync"
	"time"
)

const (
	// stepTolerance is how much further than the monotonic clock the wall clock may advance between two readings without counting as a
	// step. The timestamps of pods have a resolution of one second.
	stepTolerance = time.Second
	// stepAdoptedAfter is how long the wall clock must be ahead before its step is adopted. A misled time daemon, or a user who set the
	// clock, usually corrects it within minutes. A clock that stays ahead was behind before, or its machine was suspended. Until the step
	// is adopted, pods become available later, which is the stricter side.
	stepAdoptedAfter = 5 * time.Minute
	// clockReadEvery is the interval at which the clock is checked for steps back.
	clockReadEvery = time.Second
)

// steadyClock is the wall clock by which a leader judges how long pods have been ready. It follows every step back at once, and a step
// ahead only when the step lasts, because pods that are counted too early release budget. It is safe for concurrent use.
type steadyClock struct {
	wall, monotonic func() time.Time

	mu sync.Mutex
	// last is the last time that the clock returned, and read is when it did, on the monotonic clock.
	last, read time.Time
	// ahead is since when the wall clock has been ahead, on the monotonic clock; zero while it is not.
	ahead time.Time
	// back reports whether the clock was stepped back since the last call of wasSetBack.
	back bool
}

// now returns the time.
func (c *steadyClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, read := c.wall().Round(0), c.monotonic()
	expected := c.last.Add(read.Sub(c.read))
	switch {
	case c.read.IsZero():
		c.last = wall
	case !wall.After(expected.Add(stepTolerance)):
		c.back = c.back || wall.Before(expected.Add(-stepTolerance))
		c.last, c.ahead = wall, time.Time{}
	case c.ahead.IsZero():
		c.last, c.ahead = expected, read
	case read.Sub(c.ahead) >= stepAdoptedAfter:
		c.last, c.ahead = wall, time.Time{}
	default:
		c.last = expected
	}
	c.read = read
	return c.last
}

// wasSetBack reports whether the clock was stepped back since the last call.
func (c *steadyClock) wasSetBack() bool {
	c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	back := c.back
	c.back = false
	return back
}

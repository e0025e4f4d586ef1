package reserve

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot returns the time since the machine started, while it was suspended included: the time of an escrow ends also in a virtual machine that is
// paused. Go's monotonic clock does not count that.
func sinceBoot() time.Duration {
	now := unix.Timespec{}
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Duration(1<<63 - 1) // no escrow may be used
	}
	return time.Duration(now.Nano())
}

//go:build !linux

package reserve

import "time"

// sinceBoot returns the latest time, so that no escrow is used: there is no portable clock that counts while the machine is suspended.
func sinceBoot() time.Duration { return time.Duration(1<<63 - 1) }

package podhold

import "time"

const (
	firstRetry = 100 * time.Millisecond
	// maxRetry is short: an API server that was unreachable gets its pods back soon. maxUnregistrableRetry is long: each attempt to register a
	// pod that admission changes creates a pod and deletes it.
	maxRetry              = 10 * time.Second
	maxUnregistrableRetry = 10 * time.Minute
)

// RetryAfter returns how long a guard waits before it tries again to register a held pod, after a number of failures in a row, at least 1.
// unregistrable reports that the pod cannot be registered, as far as it is known.
func RetryAfter(failures int, unregistrable bool) time.Duration {
	limit := maxRetry
	if unregistrable {
		limit = maxUnregistrableRetry
	}
	return min(firstRetry<<min(failures-1, 20), limit)
}

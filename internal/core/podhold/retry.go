package podhold

import "time"

const (
	firstRetry = 100 * time.Millisecond
	// maxRetry is short: an API server that was unreachable gets its pods back soon. maxUnregistrableRetry is long: each attempt to register a
	// pod that admission changes creates a pod and deletes it.
	maxRetry              = 10 * time.Second
	maxUnregistrableRetry = 10 * time.Minute
)

// admissionWait is for how long a held pod is not registered because it is unknown whether its removal was admitted. API servers keep Events for
// an hour by default: after that the record would be gone, and the answer NotAdmitted.
const admissionWait = time.Hour

// AwaitsAdmission reports whether a pod that has been held for a time is not registered yet while it is unknown whether its removal was admitted
// (rule N3). The wait ends before the retention: a pod that was never registered would end by it.
func AwaitsAdmission(held, retention time.Duration) bool {
	return held < min(admissionWait, retention/2)
}

// RetryAfter returns how long a guard waits before it tries again to register a held pod, after a number of failures in a row, at least 1.
// unregistrable reports that the pod cannot be registered, as far as it is known.
func RetryAfter(failures int, unregistrable bool) time.Duration {
	limit := maxRetry
	if unregistrable {
		limit = maxUnregistrableRetry
	}
	return min(firstRetry<<min(failures-1, 20), limit)
}

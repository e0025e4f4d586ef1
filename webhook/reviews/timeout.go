package reviews

import (
	"net/http"
	"time"
)

const (
	// MaxTimeout is the longest timeout of a webhook that an API server accepts.
	MaxTimeout = 30 * time.Second
	// GiveBackTimeout limits one attempt to give back the reservation of a review, in the background. Reservations that it misses end with the
	// admission deadline.
	GiveBackTimeout = 5 * time.Second
	// maxMargin is the longest time that an answer gets to reach its API server; see AnswerWithin.
	maxMargin = 1500 * time.Millisecond
)

// Timeout returns how long the client of a request waits for the answer, according to its URL: an API server sends ?timeout=10s. It is between 0 and
// MaxTimeout, and fallback for clients that send none.
func Timeout(r *http.Request, fallback time.Duration) time.Duration {
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || timeout <= 0 {
		timeout = fallback
	}
	return min(timeout, MaxTimeout)
}

// AnswerWithin returns how long after the arrival of a request its answer must be sent, if the API server waits for timeout. An answer with a reason
// that arrives is better than a timeout: clients such as kubectl drain retry after 429, and give up after the InternalError of an API server.
// The rest, half of the timeout and at most maxMargin, is for what takes time outside of the handler:
//
//   - The API server's clock starts before it connects. BenchmarkAnswerLag of package webhook measured up to 0.78 s for TLS handshakes, queues and the
//     work of the API server, with 200 deletions at a time on two CPUs that eight busy loops and other builds used.
//   - It rounds the time that it has left up to whole seconds: if the client's own deadline comes earlier than the webhook's timeout, up to 1 s is
//     missing.
func AnswerWithin(timeout time.Duration) time.Duration { return timeout - min(timeout/2, maxMargin) }

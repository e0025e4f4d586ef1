package reviews_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

func TestTimeoutOfRequest(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"":                  10 * time.Second,
		"?timeout=1s":       time.Second,
		"?timeout=30s":      30 * time.Second,
		"?timeout=876000h":  30 * time.Second,
		"?timeout=0s":       10 * time.Second,
		"?timeout=-1s":      10 * time.Second,
		"?timeout=tomorrow": 10 * time.Second,
	} {
		if got := reviews.Timeout(httptest.NewRequest("POST", "/cells/worker-1/validate"+query, nil), 10*time.Second); got != want {
			t.Errorf("Timeout(%q) = %s, want %s", query, got, want)
		}
	}
}

// The properties hold for every timeout that an API server can send, also for one that it rounds up.
func TestAnswerLeavesAMarginAtEveryTimeout(t *testing.T) {
	const (
		measured = 780 * time.Millisecond // what the way to the API server takes under load
		rounding = time.Second            // what an API server may add to the time that it has left
	)
	before := time.Duration(0)
	for timeout := time.Millisecond; timeout <= reviews.MaxTimeout; timeout += time.Millisecond {
		within := reviews.AnswerWithin(timeout)
		margin := timeout - within
		switch {
		case within <= 0 || within < timeout/2:
			t.Fatalf("%s: %s are left to decide, want at least half", timeout, within)
		case within < before:
			t.Fatalf("%s: %s are left to decide, less than %s of a shorter timeout", timeout, within, before)
		case margin < timeout/2 && margin < measured:
			t.Fatalf("%s: the margin of %s is shorter than the %s that were measured", timeout, margin, measured)
		case timeout >= 3*time.Second && margin < rounding+measured/2:
			t.Fatalf("%s: the margin of %s does not cover a deadline that was rounded up by %s", timeout, margin, rounding)
		}
		before = within
	}
}

package webhook

import (
	"net/http/httptest"
	"testing"
	"time"
)

func TestReviewTimeout(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"":                  9500 * time.Millisecond,
		"?timeout=1s":       900 * time.Millisecond,
		"?timeout=30s":      29500 * time.Millisecond,
		"?timeout=876000h":  29500 * time.Millisecond,
		"?timeout=-1s":      9500 * time.Millisecond,
		"?timeout=tomorrow": 9500 * time.Millisecond,
	} {
		if got := reviewTimeout(httptest.NewRequest("POST", "/cells/worker-1/validate"+query, nil)); got != want {
			t.Errorf("reviewTimeout(%q) = %s, want %s", query, got, want)
		}
	}
}

package podhold_test

import (
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

func TestRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		failures      int
		unregistrable bool
		want          time.Duration
	}{
		{1, false, 100 * time.Millisecond}, {2, false, 200 * time.Millisecond}, {7, false, 6400 * time.Millisecond}, {8, false, 10 * time.Second},
		{1 << 40, false, 10 * time.Second}, {1, true, 100 * time.Millisecond}, {8, true, 12800 * time.Millisecond}, {13, true, 409600 * time.Millisecond},
		{14, true, 10 * time.Minute}, {1 << 40, true, 10 * time.Minute},
	} {
		if got := podhold.RetryAfter(tc.failures, tc.unregistrable); got != tc.want {
			t.Errorf("RetryAfter(%d, %v) = %s, want %s", tc.failures, tc.unregistrable, got, tc.want)
		}
	}
}

func TestAwaitsAdmission(t *testing.T) {
	for _, tc := range []struct {
		held, retention time.Duration
		want            bool
	}{
		{0, 24 * time.Hour, true}, {time.Hour - 1, 24 * time.Hour, true}, {time.Hour, 24 * time.Hour, false},
		{29 * time.Minute, time.Hour, true}, {30 * time.Minute, time.Hour, false},
	} {
		if got := podhold.AwaitsAdmission(tc.held, tc.retention); got != tc.want {
			t.Errorf("AwaitsAdmission(%s, %s) = %v, want %v", tc.held, tc.retention, got, tc.want)
		}
	}
}

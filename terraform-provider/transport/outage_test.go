package transport

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// core answers requests in place of a core cluster.
type core func(ctx context.Context, sinceStart time.Duration) (status int, err error)

func always(status int, err error) core {
	return func(context.Context, time.Duration) (int, error) { return status, err }
}

// upAfter is a core that refuses connections for some time.
func upAfter(down time.Duration) core {
	return func(_ context.Context, now time.Duration) (int, error) {
		if now < down {
			return 0, syscall.ECONNREFUSED
		}
		return http.StatusOK, nil
	}
}

func hangs(ctx context.Context, _ time.Duration) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// transport returns the transport to a core, and counts requests. All answers but those of a proxy have an Audit-Id.
func (c core) transport(requests *int) http.RoundTripper {
	began, turn := time.Now(), make(chan struct{}, 1)
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		turn <- struct{}{}
		*requests++
		<-turn
		status, err := c(req.Context(), time.Since(began))
		if err != nil {
			return nil, err
		}
		header := http.Header{}
		if status != http.StatusBadGateway {
			header.Set("Audit-Id", "1")
		}
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: header, Body: io.NopCloser(strings.NewReader(""))}, nil
	})
}

// Fifty resources retry their requests, ten at a time. The time is virtual.
func TestOutageGuard(t *testing.T) {
	const resources, atOnce = 50, 10
	var hung atomic.Bool
	for claim, c := range map[string]struct {
		core core
		// failed is how many resources fail, within the given time and number of requests.
		failed, requests int
		within           time.Duration
		want             string
	}{
		"a core that answers":             {core: always(http.StatusOK, nil), requests: resources},
		"a core that denies":              {core: always(http.StatusForbidden, nil), requests: resources},
		"a core that refuses connections": {always(0, syscall.ECONNREFUSED), resources, 200, 35 * time.Second, "core.example has not answered for 30s: connection refused"},
		"a core that never answers":       {hangs, resources, 20, 62 * time.Second, "https://core.example has not answered for 30s: "},
		"a proxy without a core":          {always(http.StatusBadGateway, nil), resources, 200, 35 * time.Second, "has not answered for 30s: Bad Gateway"},
		"a restart":                       {core: upAfter(25 * time.Second), requests: 200, within: 30 * time.Second},
		"a slow webhook of the core": {core: func(context.Context, time.Duration) (int, error) {
			<-time.After(25 * time.Second)
			return http.StatusOK, nil
		}, requests: resources, within: 5 * 25 * time.Second},
		"one request that hangs while others have answers": {core: func(ctx context.Context, now time.Duration) (int, error) {
			if hung.CompareAndSwap(false, true) {
				return hangs(ctx, now)
			}
			<-time.After(10 * time.Second)
			return http.StatusOK, nil
		}, requests: resources + 1, within: 72 * time.Second},
		"a core that is unavailable": {core: func(_ context.Context, now time.Duration) (int, error) {
			if now < time.Minute {
				return http.StatusServiceUnavailable, nil
			}
			return http.StatusOK, nil
		}, requests: 400, within: 70 * time.Second},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent, began := 0, time.Now()
				b := &outageGuard{RoundTripper: c.core.transport(&sent), server: "https://core.example", patience: DefaultPatience}
				slots, errs := make(chan struct{}, atOnce), make(chan error, resources)
				for range resources {
					go func() {
						slots <- struct{}{}
						errs <- Retry(t.Context(), func(ctx context.Context) error { return get(ctx, b) })
						<-slots
					}()
				}
				failed := 0
				for range resources {
					err := <-errs
					if err == nil {
						continue
					}
					failed++
					if !IsOutage(err) || !strings.Contains(err.Error(), c.want) {
						t.Errorf("error = %v, want %q", err, c.want)
					}
				}
				if took := time.Since(began); failed != c.failed || sent > c.requests || took > c.within {
					t.Errorf("%d resources failed after %d requests and %s, want %d failures, at most %d requests and %s", failed, sent, took, c.failed, c.requests, c.within)
				}
			})
		})
	}
}

// get sends a request as client-go does.
func get(ctx context.Context, transport http.RoundTripper) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://core.example/apis", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusForbidden {
		return apierrors.NewServiceUnavailable(resp.Status)
	}
	return nil
}

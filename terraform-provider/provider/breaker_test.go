package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// core answers requests in place of a core cluster.
type core func(ctx context.Context, sinceStart time.Duration, path string) (status int, err error)

func always(status int, err error) core {
	return func(context.Context, time.Duration, string) (int, error) { return status, err }
}

// upAfter is a core that refuses connections for some time.
func upAfter(down time.Duration) core {
	return func(_ context.Context, now time.Duration, _ string) (int, error) {
		if now < down {
			return 0, syscall.ECONNREFUSED
		}
		return http.StatusOK, nil
	}
}

func hangs(ctx context.Context, _ time.Duration, _ string) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// transport returns the transport to a core, and counts requests and probes.
func (c core) transport(requests *int) http.RoundTripper {
	began, turn := time.Now(), make(chan struct{}, 1)
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		turn <- struct{}{}
		*requests++
		<-turn
		status, err := c(req.Context(), time.Since(began), req.URL.Path)
		if err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader(""))}, nil
	})
}

// Fifty resources retry their requests, ten at a time. The time is virtual.
func TestBreaker(t *testing.T) {
	const resources, atOnce = 50, 10
	for claim, c := range map[string]struct {
		core core
		// failed is how many resources fail, within the given time and number of requests.
		failed, requests int
		within           time.Duration
		want             string
	}{
		"a core that answers":             {core: always(http.StatusOK, nil), requests: resources},
		"a core that denies":              {core: always(http.StatusForbidden, nil), requests: resources},
		"a core that refuses connections": {always(0, syscall.ECONNREFUSED), resources, 40, 31 * time.Second, "https://core.example has not answered for 30s: connection refused"},
		"a core that never answers":       {hangs, resources, 40, 36 * time.Second, "https://core.example has not answered for 30s: "},
		"a proxy without a core":          {always(http.StatusBadGateway, nil), resources, 40, 31 * time.Second, "has not answered for 30s: Bad Gateway"},
		"a restart":                       {core: upAfter(25 * time.Second), requests: resources + 40, within: 40 * time.Second},
		"a slow webhook of the core": {core: func(_ context.Context, _ time.Duration, path string) (int, error) {
			if path != "/version" {
				<-time.After(25 * time.Second)
			}
			return http.StatusOK, nil
		}, requests: resources * 2, within: 5 * 25 * time.Second},
		"one kind that is unavailable": {core: func(_ context.Context, now time.Duration, path string) (int, error) {
			if path != "/version" && now < time.Minute {
				return http.StatusServiceUnavailable, nil
			}
			return http.StatusOK, nil
		}, requests: 2000, within: 70 * time.Second},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent, began := 0, time.Now()
				b, err := newBreaker(c.core.transport(&sent), &rest.Config{Host: "https://core.example"}, defaultPatience)
				if err != nil {
					t.Fatal(err)
				}
				slots, errs := make(chan struct{}, atOnce), make(chan error, resources)
				for range resources {
					go func() {
						slots <- struct{}{}
						errs <- retryTransient(t.Context(), func(ctx context.Context) error { return get(ctx, b) })
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
					if !isOutage(err) || !strings.Contains(err.Error(), c.want) {
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
	if isGatewayError(resp) {
		return apierrors.NewServiceUnavailable(resp.Status)
	}
	return nil
}

func TestOptionalRequestDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		b, err := newBreaker(upAfter(time.Minute).transport(&sent), &rest.Config{Host: "https://core.example"}, defaultPatience)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 100 {
			if err := get(optional(t.Context()), b); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("error = %v, want that of the first request", err)
			}
		}
		if sent != 1 || time.Since(began) > 0 {
			t.Errorf("100 requests of a plan sent %d in %s, want 1 at once", sent, time.Since(began))
		}
		<-time.After(2 * time.Minute)
	})
}

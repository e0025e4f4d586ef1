package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// defaultLimit is how long commands wait for clusters that do not answer, without --request-timeout.
const defaultLimit = 5 * time.Second

// Limit returns how long a command waits for all clusters that it reads, in total.
func (c *ClusterFinder) Limit() time.Duration {
	if limit, err := clientcmd.ParseTimeout(*c.current.Timeout); err == nil && limit > 0 {
		return limit
	}
	return defaultLimit
}

// NoticeAfter returns how long a command waits silently before it says what it waits for. A core that works usually answers earlier.
func (c *ClusterFinder) NoticeAfter() time.Duration { return c.Limit() / 10 }

// NoteAfter reports something unless stop is called before. stop may be called again.
func (p *Plugin) NoteAfter(delay time.Duration, format string, arguments ...any) (stop func()) {
	written := make(chan struct{})
	timer := time.AfterFunc(delay, func() {
		defer close(written)
		p.Note(format, arguments...)
	})
	return sync.OnceFunc(func() {
		if !timer.Stop() {
			<-written
		}
	})
}

// responseLimit limits the time until the response to a read begins. It has no effect on the duration of a watch, nor on writes and dry runs, which
// wait for webhooks. Clients need it because they do not pass their context to discovery.
type responseLimit struct {
	next  http.RoundTripper
	limit time.Duration
}

// RoundTrip implements http.RoundTripper.
func (l *responseLimit) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		return l.next.RoundTrip(request)
	}
	ctx, cancel := context.WithCancel(request.Context())
	timer := time.AfterFunc(l.limit, cancel)
	response, err := l.next.RoundTrip(request.WithContext(ctx))
	// The deadline of the command may end while the request does. Only a command that the user canceled may return that it was canceled.
	if !timer.Stop() && !errors.Is(request.Context().Err(), context.Canceled) {
		if err == nil {
			_ = response.Body.Close()
		}
		cancel()
		return nil, fmt.Errorf("no response within %s: %w", l.limit, context.DeadlineExceeded)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &cancelingBody{response.Body, cancel}
	return response, nil
}

// WrappedRoundTripper implements k8s.io/apimachinery/pkg/util/net.RoundTripperWrapper, with which client-go closes idle connections.
func (l *responseLimit) WrappedRoundTripper() http.RoundTripper { return l.next }

// cancelingBody releases the context of a request when its response was read.
type cancelingBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b *cancelingBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// CoreFuture waits for the core clusters. It returns when the context of StartCores ends, because Cores passes the context to all requests.
type CoreFuture func() ([]Core, error)

// StartCores starts to find the core clusters.
func (c *ClusterFinder) StartCores(ctx context.Context) CoreFuture {
	found := sync.OnceValues(func() ([]Core, error) { return c.Cores(ctx) })
	go func() { _, _ = found() }()
	return found
}

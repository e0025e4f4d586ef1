package aggregator_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// watchCounter counts the open watches of nodes.
type watchCounter struct{ now atomic.Int32 }

func (w *watchCounter) open() int { return int(w.now.Load()) }

func (w *watchCounter) count(next http.RoundTripper) http.RoundTripper {
	return &countingTransport{next, w}
}

type countingTransport struct {
	next http.RoundTripper
	*watchCounter
}

func (c *countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err == nil && strings.HasSuffix(request.URL.Path, "/nodes") && request.URL.Query().Get("watch") != "" && response.StatusCode == http.StatusOK {
		c.now.Add(1)
		response.Body = &countedBody{ReadCloser: response.Body, watchCounter: c.watchCounter}
	}
	return response, err
}

type countedBody struct {
	io.ReadCloser
	*watchCounter
	closed atomic.Bool
}

func (c *countedBody) Close() error {
	if !c.closed.Swap(true) {
		c.now.Add(-1)
	}
	return c.ReadCloser.Close()
}

package aggregator_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// watches counts the open watches of nodes.
type watches struct{ now atomic.Int32 }

func (w *watches) open() int { return int(w.now.Load()) }

func (w *watches) count(next http.RoundTripper) http.RoundTripper { return &counting{next, w} }

type counting struct {
	next http.RoundTripper
	*watches
}

func (c *counting) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err == nil && strings.HasSuffix(request.URL.Path, "/nodes") && request.URL.Query().Get("watch") != "" && response.StatusCode == http.StatusOK {
		c.now.Add(1)
		response.Body = &counted{ReadCloser: response.Body, watches: c.watches}
	}
	return response, err
}

type counted struct {
	io.ReadCloser
	*watches
	closed atomic.Bool
}

func (c *counted) Close() error {
	if !c.closed.Swap(true) {
		c.now.Add(-1)
	}
	return c.ReadCloser.Close()
}

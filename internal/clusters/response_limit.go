package clusters

import (
	"fmt"
	"io"
	"net/http"
)

// maxResponse bounds a response of a cell's API server, in bytes. Components list in pages, and the largest pages have some megabytes. Only
// watches are longer, and clients read those one event at a time.
const maxResponse = 64 << 20

// responseLimiter fails the reading of responses that are longer than limit, so that an API server cannot exhaust the memory of a process that also
// serves other cells.
type responseLimiter struct {
	http.RoundTripper
	limit int64
}

func limitResponses(to http.RoundTripper) http.RoundTripper { return &responseLimiter{to, maxResponse} }

// WrappedRoundTripper implements utilnet.RoundTripperWrapper, through which idle connections are closed.
func (l *responseLimiter) WrappedRoundTripper() http.RoundTripper { return l.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l *responseLimiter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.RoundTripper.RoundTrip(request)
	watch := request.URL.Query().Get("watch")
	if err != nil || watch == "true" || watch == "1" || response.StatusCode == http.StatusSwitchingProtocols {
		return response, err
	}
	response.Body = &limitedBody{ReadCloser: response.Body, remaining: l.limit, limit: l.limit}
	return response, nil
}

type limitedBody struct {
	io.ReadCloser
	remaining, limit int64
}

// Read implements io.Reader. It reads one byte past the limit, to distinguish a longer response from one of exactly that length.
func (b *limitedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.remaining+1 {
		p = p[:b.remaining+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) <= b.remaining {
		b.remaining -= int64(n)
		return n, err
	}
	return int(b.remaining), fmt.Errorf("the API server of the cell sends a response of more than %d bytes", b.limit)
}

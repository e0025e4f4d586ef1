package clusters

import (
	"fmt"
	"io"
	"net/http"
)

// maxResponse bounds a response of a cell's API server, in bytes. Components list in pages, and the largest pages have some megabytes. Only
// watches are longer, and clients read those one event at a time.
const maxResponse = 64 << 20

// bounded fails the reading of responses that are longer than limit, so that an API server cannot exhaust the memory of a process that also
// serves other cells.
type bounded struct {
	http.RoundTripper
	limit int64
}

func boundResponses(to http.RoundTripper) http.RoundTripper { return &bounded{to, maxResponse} }

// WrappedRoundTripper implements utilnet.RoundTripperWrapper, through which idle connections are closed.
func (b *bounded) WrappedRoundTripper() http.RoundTripper { return b.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	watch := request.URL.Query().Get("watch")
	if err != nil || watch == "true" || watch == "1" || response.StatusCode == http.StatusSwitchingProtocols {
		return response, err
	}
	response.Body = &boundedBody{ReadCloser: response.Body, left: b.limit, limit: b.limit}
	return response, nil
}

type boundedBody struct {
	io.ReadCloser
	left, limit int64
}

// Read implements io.Reader. It reads one byte past the limit, to distinguish a longer response from one of exactly that length.
func (b *boundedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) <= b.left {
		b.left -= int64(n)
		return n, err
	}
	return int(b.left), fmt.Errorf("the API server of the cell sends a response of more than %d bytes", b.limit)
}

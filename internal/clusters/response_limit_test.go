package clusters

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// fixedResponse is a RoundTripper that answers every request with one body.
type fixedResponse []byte

func (a fixedResponse) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(iotest.HalfReader(bytes.NewReader(a)))}, nil
}

func TestResponsesAreLimited(t *testing.T) {
	const limit = 1000
	for _, test := range []struct {
		claim, query string
		length       int
		bounded      bool
	}{
		{"a short response", "", 10, false},
		{"a response of the limit", "", limit, false},
		{"a response of one byte more", "", limit + 1, true},
		{"a long response", "?limit=250", 100 * limit, true},
		{"a long watch", "?allowWatchBookmarks=true&watch=true", 100 * limit, false},
		{"a long watch, as other clients ask for it", "?watch=1", 100 * limit, false},
		{"a long list that says that it is no watch", "?watch=false", 100 * limit, true},
	} {
		t.Run(test.claim, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://cell.invalid/api/v1/pods"+test.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := (&responseLimiter{fixedResponse(bytes.Repeat([]byte("x"), test.length)), limit}).RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			want := test.length
			if test.bounded {
				want = limit
			}
			if len(body) != want || test.bounded != (err != nil && strings.Contains(err.Error(), "more than 1000 bytes")) {
				t.Errorf("read %d bytes with error %v, want %d bytes, and an error: %t", len(body), err, want, test.bounded)
			}
		})
	}
}

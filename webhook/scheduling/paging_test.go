package scheduling_test

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"sync"
	"testing"
)

// requestLog records the GET requests.
type requestLog struct {
	mu  sync.Mutex
	all []*url.URL
}

func (r *requestLog) record(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(request *http.Request) (*http.Response, error) {
		if request.Method == http.MethodGet {
			r.mu.Lock()
			r.all = append(r.all, request.URL)
			r.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// of returns the requests for a resource.
func (r *requestLog) of(resource string) []*url.URL {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.all), func(u *url.URL) bool { return path.Base(u.Path) != resource })
}

// The webhook fills its caches in pieces: no response contains all objects of a kind, however many there are.
func TestCachesUsePagesOrStreams(t *testing.T) {
	p := newFixture(t)
	p.configure()
	for _, resource := range []string{"podschedulingpolicies", "clusterpodschedulingpolicies", "podprotectors"} {
		of := p.reads.of(resource)
		if len(of) == 0 || of[0].Query().Get("sendInitialEvents") != "true" {
			t.Errorf("the first read of %s is not a stream: %s", resource, of)
		}
		for _, read := range of {
			if !isPagedOrStreamed(read.Query()) {
				t.Errorf("%s are read by an unpaged list: %s", resource, read)
			}
		}
	}
}

// isPagedOrStreamed reports whether a request is a stream or a page, not a list. With version 0 an API server may ignore the
// limit and return everything.
func isPagedOrStreamed(asked url.Values) bool {
	return asked.Get("watch") == "true" || asked.Get("limit") != "" && asked.Get("resourceVersion") != "0"
}

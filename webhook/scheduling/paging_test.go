package scheduling_test

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"sync"
	"testing"
)

// reads are the requests for whole collections.
type reads struct {
	mu  sync.Mutex
	all []*url.URL
}

func (r *reads) record(next http.RoundTripper) http.RoundTripper {
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

// of are those of a resource.
func (r *reads) of(resource string) []*url.URL {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.all), func(u *url.URL) bool { return path.Base(u.Path) != resource })
}

// What the webhook knows it has read piece by piece: no answer holds all objects of a kind, however many there are.
func TestCachesAreFilledPieceByPiece(t *testing.T) {
	p := newPlane(t)
	p.configure()
	for _, resource := range []string{"podschedulingpolicies", "clusterpodschedulingpolicies", "podprotectors"} {
		of := p.reads.of(resource)
		if len(of) == 0 || of[0].Query().Get("sendInitialEvents") != "true" {
			t.Errorf("the first read of %s is no stream: %s", resource, of)
		}
		for _, read := range of {
			if !isPiecemeal(read.Query()) {
				t.Errorf("%s are read in one piece: %s", resource, read)
			}
		}
	}
}

// isPiecemeal tells streams and pages from lists. With version 0 an apiserver may give all that it has, whatever the limit.
func isPiecemeal(asked url.Values) bool {
	return asked.Get("watch") == "true" || asked.Get("limit") != "" && asked.Get("resourceVersion") != "0"
}

package provider_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// recordingProxy is a proxy between the provider and the API server of the tests that records all requests.
type recordingProxy struct {
	*rest.Config
	mu       sync.Mutex
	requests []*url.URL
	// respond answers in place of the API server if it returns true. It is called for one request at a time.
	respond func(w http.ResponseWriter, r *http.Request) bool
}

func newRecordingProxy(t testing.TB) *recordingProxy {
	t.Helper()
	config := testplane.Config(t)
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	b := &recordingProxy{}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !b.handle(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	b.Config = &rest.Config{Host: server.URL}
	return b
}

func (b *recordingProxy) handle(w http.ResponseWriter, r *http.Request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, r.URL)
	return b.respond != nil && b.respond(w, r)
}

// queries returns the queries of the requests so far for the objects of a kind.
func (b *recordingProxy) queries(resource string) []url.Values {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []url.Values
	for _, u := range b.requests {
		if u.Path[len(u.Path)-min(len(u.Path), len(resource)):] == resource {
			all = append(all, u.Query())
		}
	}
	return all
}

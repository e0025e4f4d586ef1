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

// between is a proxy between the provider and the API server of the tests that records all requests.
type between struct {
	*rest.Config
	mu    sync.Mutex
	asked []*url.URL
	// instead answers in place of the API server if it returns true. It is called for one request at a time.
	instead func(w http.ResponseWriter, r *http.Request) bool
}

func standBetween(t testing.TB) *between {
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
	b := &between{}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !b.answers(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	b.Config = &rest.Config{Host: server.URL}
	return b
}

func (b *between) answers(w http.ResponseWriter, r *http.Request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, r.URL)
	return b.instead != nil && b.instead(w, r)
}

// queries returns the queries of the requests so far for the objects of a kind.
func (b *between) queries(resource string) []url.Values {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []url.Values
	for _, u := range b.asked {
		if u.Path[len(u.Path)-min(len(u.Path), len(resource)):] == resource {
			all = append(all, u.Query())
		}
	}
	return all
}

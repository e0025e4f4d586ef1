package plugin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// A command has the same limit as its requests. Without a remedy, a user would not learn that the cluster does not answer.
func TestResponseLimitEndsWithTheCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		limited := &responseLimit{roundTripper(func(request *http.Request) (*http.Response, error) {
			<-request.Context().Done() // by the limit
			<-ctx.Done()               // before the transport returns
			return nil, request.Context().Err()
		}), time.Second}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://core.example", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := limited.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
		}
		wantWordsIn(t, err, []string{"no response within 1s"})
		wantWordsIn(t, WithRemedy(&rest.Config{Host: "http://core.example"}, err), []string{"http://core.example does not answer"})
	})
}

func TestResponseLimit(t *testing.T) {
	end := make(chan struct{})
	frozen := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	defer frozen.Close()
	defer close(end)
	limited := &http.Client{Transport: &responseLimit{http.DefaultTransport, 50 * time.Millisecond}}
	_, err := limited.Get(frozen.URL) //nolint:noctx // the limit is what ends the request
	wantWordsIn(t, err, []string{"no response within 50ms", "deadline exceeded"})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v is not a deadline", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, frozen.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = limited.Do(request); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of a canceled request, want that it was canceled", err)
	}
	// A stream that began is not limited.
	more := make(chan struct{})
	stream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		<-more
		_, _ = w.Write([]byte("late"))
	}))
	defer stream.Close()
	response, err := limited.Get(stream.URL) //nolint:noctx // the limit is what is tested
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	time.AfterFunc(100*time.Millisecond, func() { close(more) })
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "late" {
		t.Errorf("read %q, %v after the limit, want the rest of the stream", text, err)
	}
}

func wantWordsIn(t *testing.T, err error, words []string) {
	t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v, want %q", err, word)
		}
	}
}

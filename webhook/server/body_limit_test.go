package server

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func TestBodyLimiterBoundsMemory(t *testing.T) {
	i := newBodyLimiter(100)
	read := func(n int) (release func(), err error) {
		content, release, err := i.read(bytes.NewReader(make([]byte, n)), -1)
		if err == nil && len(content) != n {
			t.Fatalf("read() has %d bytes, want %d", len(content), n)
		}
		return release, err
	}
	first, err := read(60)
	if err != nil {
		t.Fatalf("read() of 60 of 100 bytes: %v", err)
	}
	second, err := read(60)
	if !errors.Is(err, errOverloaded) {
		t.Errorf("read() of 60 of 40 bytes: error %v, want %v", err, errOverloaded)
	}
	second()
	first()
	all, err := read(100)
	if err != nil {
		t.Errorf("read() of 100 bytes after all were released: %v", err)
	}
	all()
}

// A body that is too long or malformed releases the memory that was read of it.
func TestRejectedReviewReleasesMemory(t *testing.T) {
	s := &Server{}
	s.SetUp(testProtection{}, prometheus.NewRegistry(), nil, logr.Discard())
	s.bodyLimiter = newBodyLimiter(64 << 10)
	for claim, c := range map[string]struct {
		body string
		code int
	}{
		"no review":  {"{}", http.StatusBadRequest},
		"too large":  {strings.Repeat("x", 65<<10), http.StatusServiceUnavailable},
		"half a one": {`{"apiVersion":`, http.StatusBadRequest},
	} {
		answer := httptest.NewRecorder()
		review, _ := s.readRequest(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body)))
		if review != nil || answer.Code != c.code || !strings.Contains(answer.Body.String(), "Breakwater cannot read the review") {
			t.Errorf("%s: readRequest() = %v with code %d and %q, want code %d", claim, review, answer.Code, answer.Body, c.code)
		}
		if !s.bodyLimiter.free.TryAcquire(64 << 10) {
			t.Fatalf("%s: body bytes are still acquired after the answer", claim)
		}
		s.bodyLimiter.free.Release(64 << 10)
	}
	var counted dto.Metric
	if err := s.metrics.overloads.Write(&counted); err != nil || counted.GetCounter().GetValue() != 1 {
		t.Errorf("%v overloads, error %v, want 1", counted.GetCounter().GetValue(), err)
	}
}

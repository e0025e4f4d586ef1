package clusters

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
)

func TestClockIsComparedWithMiddleOfRequest(t *testing.T) {
	date := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	half := date.Add(time.Second / 2) // the server cuts off the fraction, so this is wrong by at most half a second
	for name, test := range map[string]struct {
		sent, received time.Time
		want           time.Duration
		known          bool
	}{
		"the same time":               {half, half, 0, true},
		"ours is ahead":               {half.Add(time.Minute), half.Add(time.Minute), time.Minute, true},
		"ours is behind":              {half.Add(-time.Hour), half.Add(-time.Hour), -time.Hour, true},
		"a slow response":             {half.Add(-time.Second), half.Add(time.Second), 0, true},
		"a response that is too slow": {half, half.Add(3 * time.Second), 0, false},
	} {
		if got, known := ahead(test.sent, test.received, date); got != test.want || known != test.known {
			t.Errorf("%s: %s, %v, want %s, %v", name, got, known, test.want, test.known)
		}
	}
}

func TestProbeReportsAPIServer(t *testing.T) {
	var status atomic.Int32
	date := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/below/readyz" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.Header().Set("Date", date.Format(http.TimeFormat))
		w.WriteHeader(int(status.Load()))
	}))
	up, ahead := prometheus.NewDesc("up", "", nil, nil), prometheus.NewDesc("ahead", "", nil, nil)
	p, err := NewProbe(&rest.Config{Host: server.URL + "/below"}, time.Hour, up, ahead)
	if err != nil {
		t.Fatal(err)
	}
	p.now = func() time.Time { return date.Add(time.Minute + time.Second/2) }
	for code, want := range map[int]probeResult{
		http.StatusOK: {up: true}, http.StatusForbidden: {up: true}, http.StatusInternalServerError: {}, http.StatusUnauthorized: {isRejected: true},
	} {
		status.Store(int32(code))
		want.hasAnswered, want.ahead, want.hasClock = true, time.Minute, true
		if got := p.probe(t.Context()); got != want {
			t.Errorf("answer %d: %+v, want %+v", code, got, want)
		}
	}
	server.Close()
	if found := p.probe(t.Context()); found.up || found.hasClock {
		t.Errorf("unreachable API server: %+v, want it down", found)
	}
}

func TestRejectedCredentialsAreProbedSoonAgain(t *testing.T) {
	p := &Probe{every: 10 * time.Second, now: time.Now}
	for i, step := range []struct {
		isRejected bool
		next       time.Duration
	}{{false, 10 * time.Second}, {true, silentProbeInterval}, {true, silentProbeInterval}, {false, 10 * time.Second}} {
		next := p.record(probeResult{hasAnswered: true, isRejected: step.isRejected})
		if _, isSilent := p.SilentSince(); isSilent || p.IsRejected() != step.isRejected || next != step.next {
			t.Errorf("step %d: silent %v, rejected %v, next probe after %v; want not silent, and %+v", i, isSilent, p.IsRejected(), next, step)
		}
	}
	if (*Probe)(nil).IsRejected() {
		t.Error("an API server that nothing probes rejects credentials")
	}
}

// A broken connection does not make an API server silent, and any answer ends its silence.
func TestProbeTellsSinceWhenAnAPIServerIsSilent(t *testing.T) {
	began := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	now := began
	p := &Probe{every: 10 * time.Second, now: func() time.Time { return now }, suspected: make(chan struct{}, 1), silence: silence{answered: began}}
	p.silence.answering, p.silence.fallSilent = context.WithCancel(t.Context())
	for i, step := range []struct {
		answers bool
		silent  time.Duration // since began; -1 if it may answer
		next    time.Duration
	}{
		{false, -1, silentProbeInterval}, // never answered: it may still start
		{false, 0, silentProbeInterval},
		{true, -1, 10 * time.Second}, // at 2 s
		{false, -1, silentProbeInterval},
		{true, -1, 10 * time.Second}, // at 4 s
		{false, -1, silentProbeInterval},
		{false, 4 * time.Second, silentProbeInterval},
		{false, 4 * time.Second, silentProbeInterval},
		{true, -1, 10 * time.Second},
	} {
		next := p.record(probeResult{hasAnswered: step.answers})
		since, isSilent := p.SilentSince()
		if isSilent != (step.silent >= 0) || isSilent && !since.Equal(began.Add(step.silent)) || next != step.next {
			t.Errorf("step %d: silent %v since %v, next probe after %v; want %+v", i, isSilent, since.Sub(began), next, step)
		}
		if hasEnded := p.Answering().Err() != nil; hasEnded != isSilent {
			t.Errorf("step %d: the context of an answering API server has ended: %v, want %v", i, hasEnded, isSilent)
		}
		now = now.Add(time.Second)
	}
	p.Suspect()
	p.Suspect() // does not block
	if _, isSilent := (*Probe)(nil).SilentSince(); isSilent {
		t.Error("an API server that nothing probes is silent")
	}
	(*Probe)(nil).Suspect()
	if err := (*Probe)(nil).Answering().Err(); err != nil {
		t.Errorf("an API server that nothing probes does not answer: %v", err)
	}
}

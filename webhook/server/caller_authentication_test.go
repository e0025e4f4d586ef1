package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// callerFixture authenticates requests to a handler that records them.
type callerFixture struct {
	*testing.T
	callers callerAuthenticator
	folder  string
	seen    []string
	logged  strings.Builder
}

func newCallerFixture(t *testing.T, keys map[string]string) *callerFixture {
	t.Helper()
	l := &callerFixture{T: t, folder: t.TempDir()}
	for name, key := range keys {
		l.put(name, key)
	}
	l.callers = callerAuthenticator{
		folder: l.folder, interval: 10 * time.Millisecond, metrics: newMetrics(prometheus.NewRegistry()),
		label: func(scope string) string { return scope }, log: funcr.New(func(prefix, args string) { l.logged.WriteString(prefix + args) }, funcr.Options{Verbosity: 9}),
	}
	return l
}

func (l *callerFixture) put(name, content string) {
	l.Helper()
	if err := os.WriteFile(filepath.Join(l.folder, name), []byte(content), 0o600); err != nil {
		l.Fatal(err)
	}
}

func (l *callerFixture) start() {
	l.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l.Cleanup(cancel)
	if err := l.callers.start(ctx); err != nil {
		l.Fatal(err)
	}
}

// request returns the status code and the body of the answer.
func (l *callerFixture) request(path string) (code int, text string) {
	l.Helper()
	reviews := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { l.seen = append(l.seen, r.RequestURI+" "+r.URL.String()) })
	answer := httptest.NewRecorder()
	l.callers.authenticate(reviews).ServeHTTP(answer, httptest.NewRequestWithContext(l.Context(), http.MethodPost, path, http.NoBody))
	return answer.Code, answer.Body.String()
}

func (l *callerFixture) counted(scope, verdict string) float64 {
	l.Helper()
	written := &dto.Metric{}
	if err := l.callers.metrics.unauthenticated.WithLabelValues(scope, verdict).Write(written); err != nil {
		l.Fatal(err)
	}
	return written.GetCounter().GetValue()
}

func TestCallersWithAToken(t *testing.T) {
	const now, before = "the current key", "the previous key"
	token := func(key, scope string) string { return webhookconfig.CallerToken([]byte(key), scope) }
	path := webhookconfig.RemovalPath("a")
	for claim, c := range map[string]struct {
		path     string
		accepted bool // when a token is required
	}{
		"a token of the current key":   {webhookconfig.CallerPath(token(now, "cells/a"), path), true},
		"a token of the previous key":  {webhookconfig.CallerPath(token(before, "cells/a"), path), true},
		"a token for the same cell":    {webhookconfig.CallerPath(token(now, "cells/a"), webhookconfig.SchedulePath("a")), true},
		"a token for a cluster":        {webhookconfig.CallerPath(token(now, "cores/c/cells/a"), webhookconfig.RootGuardPath("c", "a")), true},
		"no token":                     {path, false},
		"a token of another key":       {webhookconfig.CallerPath(token("another", "cells/a"), path), false},
		"a token of another cell":      {webhookconfig.CallerPath(token(now, "cells/b"), path), false},
		"a token of a part":            {webhookconfig.CallerPath(token(now, "cells/a"), webhookconfig.RootGuardPath("c", "a")), false},
		"a token twice":                {webhookconfig.CallerPath(token(now, "cells/a"), webhookconfig.CallerPath(token(now, "cells/a"), path)), false},
		"a request of another replica": {peersPath + "v1/cores/c", true}, // it is identified by its certificate
		"a token in place of the path": {"/callers/" + token(now, "cells/a"), false},
	} {
		t.Run(claim, func(t *testing.T) {
			l := newCallerFixture(t, map[string]string{webhookconfig.CurrentCallerKey: now, webhookconfig.PreviousCallerKey: before})
			l.start()
			if code, _ := l.request(c.path); code != http.StatusOK || len(l.seen) != 1 {
				t.Errorf("while no token is required: code %d, %d reviews, want 200 and 1", code, len(l.seen))
			}
			l.put(webhookconfig.CallersRequired, "true\n")
			l.start()
			code, text := l.request(c.path)
			if want := map[bool]int{true: http.StatusOK, false: http.StatusUnauthorized}[c.accepted]; code != want {
				t.Errorf("code %d, want %d", code, want)
			}
			told := strings.Join(append(l.seen, text, l.logged.String()), "\n")
			if c.accepted {
				told = strings.Join(append(l.seen, l.logged.String()), "\n")
			}
			for _, secret := range []string{token(now, "cells/a"), token(before, "cells/a"), token(now, "cores/c/cells/a"), now, before} {
				if c.accepted && strings.Contains(told, secret) {
					t.Errorf("output %q contains the secret %q", told, secret)
				}
			}
		})
	}
}

func TestCallersAreCountedAndDenied(t *testing.T) {
	l := newCallerFixture(t, map[string]string{webhookconfig.CurrentCallerKey: "key"})
	l.start()
	l.request(webhookconfig.RemovalPath("a"))
	l.request(webhookconfig.CallerPath(webhookconfig.CallerToken([]byte("key"), "cells/a"), webhookconfig.RemovalPath("a")))
	l.put(webhookconfig.CallersRequired, "true")
	deadline := time.Now().Add(30 * time.Second)
	for !l.callers.keys.Load().required {
		if time.Now().After(deadline) {
			t.Fatal("the marker was not read within 30 s")
		}
		<-time.After(time.Millisecond)
	}
	l.request(webhookconfig.RemovalPath("a"))
	if accepted, denied := l.counted("cells/a", "accepted"), l.counted("cells/a", "refused"); accepted != 1 || denied != 1 {
		t.Errorf("%v accepted, %v refused, want 1 and 1", accepted, denied)
	}
	if err := os.Chmod(l.folder, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(l.folder, 0o700) })
	if code, _ := l.request(webhookconfig.RemovalPath("a")); code != http.StatusUnauthorized {
		t.Errorf("code %d after the keys could not be read, want 401", code)
	}
}

func TestWithoutKeysEveryCallerIsAccepted(t *testing.T) {
	l := newCallerFixture(t, nil)
	l.callers.folder = ""
	l.start()
	for _, path := range []string{webhookconfig.RemovalPath("a"), webhookconfig.CallerPath("0123", webhookconfig.RemovalPath("a")) + "?timeout=3s"} {
		if code, text := l.request(path); code != http.StatusOK {
			t.Errorf("%s: code %d, %s, want 200", path, code, text)
		}
	}
	if got := l.seen[1]; got != "/cells/a/validate?timeout=3s /cells/a/validate?timeout=3s" {
		t.Errorf("the handler sees %q, want no token", got)
	}
}

func TestMissingKeyFolderIsReported(t *testing.T) {
	c := callerAuthenticator{folder: "/nonexistent/callers"}
	if err := c.start(t.Context()); err == nil || !strings.Contains(err.Error(), "--caller-keys") || !strings.Contains(err.Error(), c.folder) {
		t.Errorf("error %v, want one about --caller-keys and %s", err, c.folder)
	}
}

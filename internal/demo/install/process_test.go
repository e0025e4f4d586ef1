package install

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func shell(t *testing.T, script string) *process {
	t.Helper()
	program, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell")
	}
	s := newSpawner()
	t.Cleanup(s.close)
	p, err := run(s, program, component{name: "part", arguments: []string{"-c", script}}, "127.0.0.1:1", filepath.Join(t.TempDir(), "part.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.terminate(time.Second) })
	return p
}

func TestADeathShowsTheLastLines(t *testing.T) {
	p := shell(t, "echo the disk is full >&2; exit 3")
	err := p.awaitReady(t.Context(), "http://127.0.0.1:1/readyz")
	if err == nil {
		t.Fatal("a dead component is ready")
	}
	for _, want := range []string{"part died", "exit status 3", "the disk is full", p.log} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

func TestReadyIsWhatTheComponentSays(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		if asked < 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	if err := shell(t, "sleep 60").awaitReady(t.Context(), server.URL); err != nil || asked != 3 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}

func TestAWaitForReadinessEndsWithItsContextAndTellsWhy(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := shell(t, "sleep 60").awaitReady(ctx, server.URL)
	if err == nil || !strings.Contains(err.Error(), "wait for part to be ready (404 Not Found") {
		t.Errorf("got %v", err)
	}
}

func TestAProcessThatDoesNotListenIsKilled(t *testing.T) {
	p := shell(t, "trap '' TERM; echo deaf; while :; do sleep 1; done")
	p.terminate(100 * time.Millisecond)
	select {
	case <-p.ended:
	default:
		t.Error("it still runs")
	}
}

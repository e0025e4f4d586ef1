package install

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
)

// nobody is an address on which no process listens.
const nobody = "127.0.0.1:1"

// shell runs a script as a component whose readiness is checked at health.
func shell(t *testing.T, script, health string) *process {
	t.Helper()
	program, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell")
	}
	s := subprocess.NewSpawner()
	t.Cleanup(s.Close)
	p, err := run(s, component{name: "part", program: program, arguments: []string{"-c", script}}, health, filepath.Join(t.TempDir(), "part.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.terminate(time.Second) })
	return p
}

func TestADeathShowsTheLastLines(t *testing.T) {
	p := shell(t, "echo the disk is full >&2; exit 3", nobody)
	err := p.awaitReady(t.Context())
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
	if err := shell(t, "sleep 60", server.Listener.Addr().String()).awaitReady(t.Context()); err != nil || asked != 3 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}

func TestAWaitForReadinessEndsWithItsContextAndTellsWhy(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked > 1 {
			cancel()
		}
		http.NotFound(w, r)
	}))
	defer server.Close()
	err := shell(t, "sleep 60", server.Listener.Addr().String()).awaitReady(ctx)
	if err == nil || !strings.Contains(err.Error(), "wait for part to be ready (404 Not Found") {
		t.Errorf("got %v", err)
	}
}

func TestAProcessThatDoesNotListenIsKilled(t *testing.T) {
	p := shell(t, "trap '' TERM; echo deaf; while :; do sleep 1; done", nobody)
	err := wait.PollUntilContextTimeout(t.Context(), readyPause, time.Minute, true, func(context.Context) (bool, error) {
		raw, err := os.ReadFile(p.log)
		return strings.Contains(string(raw), "deaf"), err
	})
	if err != nil {
		t.Fatal(err)
	}
	p.terminate(100 * time.Millisecond)
	select {
	case <-p.ended:
	default:
		t.Fatal("it still runs")
	}
	if status := p.cmd.ProcessState.String(); status != "signal: killed" {
		t.Errorf("it ended by %s", status)
	}
}

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

// unusedAddress is an address on which no process listens.
const unusedAddress = "127.0.0.1:1"

// startScript runs a script as a component whose readiness is checked at health.
func startScript(t *testing.T, script, health string) *process {
	t.Helper()
	program, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell found")
	}
	s := subprocess.NewSpawner()
	t.Cleanup(s.Close)
	p, err := startProcess(s, component{name: "part", program: program, arguments: []string{"-c", script}}, health, filepath.Join(t.TempDir(), "part.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Terminate(context.Background(), time.Second) })
	return p
}

func TestDeathShowsTheLastLogLines(t *testing.T) {
	p := startScript(t, "echo the disk is full >&2; exit 3", unusedAddress)
	err := p.awaitReady(t.Context())
	if err == nil {
		t.Fatal("awaitReady() of a dead component returned no error")
	}
	for _, want := range []string{"part died", "exit status 3", "the disk is full", p.Log} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not contain %q: %v", want, err)
		}
	}
}

func TestReadinessComesFromTheComponent(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		if asked < 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	if err := startScript(t, "sleep 60", server.Listener.Addr().String()).awaitReady(t.Context()); err != nil || asked != 3 {
		t.Errorf("readiness was checked %d times, error %v", asked, err)
	}
}

func TestAwaitReadyEndsWithItsContext(t *testing.T) {
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
	err := startScript(t, "sleep 60", server.Listener.Addr().String()).awaitReady(ctx)
	if err == nil || !strings.Contains(err.Error(), "/readyz answers 404 Not Found: 404 page not found; its log is ") {
		t.Errorf("got %v", err)
	}
}

func TestProcessThatIgnoresSIGTERMIsKilled(t *testing.T) {
	p := startScript(t, "trap '' TERM; echo deaf; while :; do sleep 1; done", unusedAddress)
	err := wait.PollUntilContextTimeout(t.Context(), readyPause, time.Minute, true, func(context.Context) (bool, error) {
		raw, err := os.ReadFile(p.Log)
		return strings.Contains(string(raw), "deaf"), err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Terminate(t.Context(), 100*time.Millisecond); err != nil || p.IsRunning() {
		t.Fatalf("Terminate() = %v, the process still runs: %v", err, p.IsRunning())
	}
	if status := p.Cmd.ProcessState.String(); status != "signal: killed" {
		t.Errorf("the process ended by %s, want SIGKILL", status)
	}
}

package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// waitTimeout is the timeout of every wait in a benchmark.
const waitTimeout = 15 * time.Minute

// Process is a running component.
type Process struct {
	testing.TB
	// Context ends after the timeout.
	Context context.Context
	// Began is when the process started.
	Began time.Time

	pid                      int
	health, metrics, profile string
	stop                     func()
}

// Build builds the program and returns its path.
func Build(tb testing.TB) string {
	tb.Helper()
	log.SetLogger(logr.Discard()) // without one, controller-runtime prints a stack trace into the figures
	program := filepath.Join(tb.TempDir(), "breakwater")
	build := exec.CommandContext(tb.Context(), "go", "build", "-o", program, "github.com/breakwater-k8s/breakwater/cmd/breakwater")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build breakwater: %v\n%s", err, out)
	}
	return program
}

// Start runs a component. It ends with the benchmark, or by Stop.
func Start(tb testing.TB, program string, arguments ...string) *Process {
	tb.Helper()
	p := &Process{TB: tb, health: testplane.FreeAddress(tb), metrics: testplane.FreeAddress(tb), profile: testplane.FreeAddress(tb)}
	output, err := os.CreateTemp(tb.TempDir(), "*.log")
	p.must(err)
	arguments = append(arguments, "--health-listen="+p.health, "--metrics-listen="+p.metrics, "--profile-listen="+p.profile)
	command := exec.Command(program, arguments...)
	// The process inherits only the variables that tune Go's runtime.
	command.Stderr, command.Env = output, []string{"HOME=" + os.TempDir()}
	for _, variable := range []string{"GOGC", "GOMEMLIMIT", "GOMAXPROCS"} {
		if value, set := os.LookupEnv(variable); set {
			command.Env = append(command.Env, variable+"="+value)
		}
	}
	spawner := subprocess.NewSpawner()
	var cancel context.CancelFunc
	p.Context, cancel = context.WithTimeoutCause(tb.Context(), waitTimeout, errors.New("timed out"))
	p.Began = time.Now()
	p.must(spawner.Start(command))
	p.pid = command.Process.Pid
	p.stop = sync.OnceFunc(func() {
		if err := errors.Join(command.Process.Signal(os.Interrupt), command.Wait()); err != nil {
			logged, _ := os.ReadFile(output.Name())
			tb.Errorf("%s: %v\n%s", arguments[0], err, logged[max(0, len(logged)-4096):])
		}
		cancel()
		spawner.Close()
		output.Close()
	})
	tb.Cleanup(p.stop)
	return p
}

// Stop ends the process and returns when it has ended.
func (p *Process) Stop() { p.stop() }

// AwaitReady returns the time from the start of the process until it was ready.
func (p *Process) AwaitReady() time.Duration {
	p.Helper()
	last := ""
	p.Await(20*time.Millisecond, func() bool {
		err := subprocess.CheckReady(p.Context, p.health)
		last = fmt.Sprint(err)
		return err == nil
	}, func() string { return "the process is not ready: " + last })
	return time.Since(p.Began)
}

// Await polls until ask returns true. After the timeout it fails with state.
func (p *Process) Await(pause time.Duration, condition func() bool, state func() string) {
	p.Helper()
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-p.Context.Done():
			p.Fatalf("%s: %v", state(), context.Cause(p.Context))
		}
	}
}

func (p *Process) get(address, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(p.Context, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, err
}

// Metric returns the sum of a metric's series whose labels contain the text, such as result="written"; "" means all.
func (p *Process) Metric(name, labels string) float64 {
	p.Helper()
	raw, err := p.get(p.metrics, "/metrics")
	p.must(err)
	return Sum(string(raw), name, labels)
}

func (p *Process) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

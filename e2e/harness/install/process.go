package install

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
)

const (
	// readyPause is the interval between readiness checks.
	readyPause = 50 * time.Millisecond
	// tailLines is the number of log lines that the error shows when a component dies.
	tailLines = 15
)

// component is a program to run.
type component struct {
	name, program string
	arguments     []string
	// metrics is the port of /metrics; nil if there is none, or before the first start. It stays the same across restarts.
	metrics *port.Claim
}

// process is a running component.
type process struct {
	component
	health   string // address of /readyz
	log      string
	cmd      *exec.Cmd
	ended    chan struct{}
	expected atomic.Bool // the harness ends it
}

func startProcess(s *subprocess.Spawner, c component, health, log string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", c.name, err)
	}
	defer file.Close() // the child has its own descriptor
	metrics := "0"
	if c.metrics != nil {
		metrics = c.metrics.Address()
	}
	arguments := append(slices.Clone(c.arguments), "--health-listen="+health, "--metrics-listen="+metrics, "--log-format=text")
	cmd := exec.Command(c.program, arguments...)
	cmd.Stdout, cmd.Stderr = file, file
	// The process inherits no environment: a KUBECONFIG or a proxy variable in it would change its behavior.
	cmd.Env = []string{"HOME=" + os.TempDir()}
	if err := s.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	p := &process{component: c, health: health, log: log, cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the status is in cmd.ProcessState
		close(p.ended)
	}()
	return p, nil
}

// awaitReady returns when the component is ready.
func (p *process) awaitReady(ctx context.Context) error {
	var last string
	client := &http.Client{Timeout: time.Second}
	err := wait.PollUntilContextCancel(ctx, readyPause, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.ended:
			return false, p.death()
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.health+"/readyz", nil)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if err != nil && (last == "" || ctx.Err() == nil) {
			last = err.Error() // do not replace a more informative error by the end of the wait
		}
		if err != nil {
			return false, nil
		}
		defer response.Body.Close()
		last = response.Status
		return response.StatusCode == http.StatusOK, nil
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("wait for %s to be ready (%s; its log is %s): %w", p.name, last, p.log, err)
	}
	return err
}

// death returns the error for a process that ended by itself.
func (p *process) death() error {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		raw = []byte(err.Error())
	}
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	return fmt.Errorf("%s died: %s; the last lines of %s:\n%s", p.name, p.cmd.ProcessState, p.log,
		strings.Join(lines[max(0, len(lines)-tailLines):], "\n"))
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// terminate asks the process to end, and kills it after the grace period.
func (p *process) terminate(grace time.Duration) {
	p.expected.Store(true)
	if p.hasEnded() {
		return // another process may have its PID by now
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM) // a process that is just ending is no error
	select {
	case <-p.ended:
		return
	case <-time.After(grace):
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

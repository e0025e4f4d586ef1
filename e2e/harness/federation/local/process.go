package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
)

// tailLines is the number of log lines that the error shows when a component dies.
const tailLines = 20

// errNotRunning is the error of a signal to a component that was killed or died.
var errNotRunning = errors.New("the process does not run")

// command is the command line and environment of one component.
type command struct {
	program   string
	arguments []string
	folder    string // working folder, home and temporary folder
	log       string // file to append to
}

// process is one run of a component.
type process struct {
	cmd      *exec.Cmd
	ended    chan struct{} // closed when the process was waited for
	expected atomic.Bool   // the federation ends it, so its exit is not a death
	started  time.Time
}

// startProcess starts a process. If it exits by itself, run calls died once.
func startProcess(s *subprocess.Spawner, c command, died func(*process)) (*process, error) {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has a descriptor of its own
	cmd := exec.Command(c.program, c.arguments...)
	cmd.Dir = c.folder
	cmd.Stdout, cmd.Stderr = log, log
	// Pass only Go's garbage collector setting: a proxy variable or a kubeconfig would change the component's behavior.
	cmd.Env = []string{"HOME=" + c.folder, "TMPDIR=" + c.folder}
	if pace, ok := os.LookupEnv("GOGC"); ok {
		cmd.Env = append(cmd.Env, "GOGC="+pace)
	}
	p := &process{cmd: cmd, ended: make(chan struct{}), started: time.Now()}
	if err := s.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(c.program), err)
	}
	go func() {
		_ = cmd.Wait() // the status is in cmd.ProcessState
		close(p.ended)
		if !p.expected.Load() {
			died(p)
		}
	}()
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// signal sends a signal to the whole process group.
func (p *process) signal(signal syscall.Signal) error {
	if !p.running() {
		return errNotRunning
	}
	if err := syscall.Kill(-p.cmd.Process.Pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// awaitStatus waits for a signal to take effect. It polls, because the kernel does not notify of it.
func (p *process) awaitStatus(want Status) error {
	for p.running() {
		_, status, err := inspect(p.cmd.Process.Pid)
		if err == nil && status == want {
			return nil
		}
		<-time.After(time.Millisecond)
	}
	return errors.New("the process exited")
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill() error {
	p.expected.Store(true)
	if !p.running() {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil && p.running() {
		return err
	}
	<-p.ended
	return nil
}

// terminate sends SIGTERM and kills the process after the grace period, or when ctx ends. A frozen process is killed,
// because it cannot handle the signal.
func (p *process) terminate(ctx context.Context, grace time.Duration) error {
	p.expected.Store(true)
	if !p.running() {
		return nil
	}
	if _, status, _ := inspect(p.cmd.Process.Pid); status == Frozen || p.signal(syscall.SIGTERM) != nil {
		return p.kill()
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return p.kill()
}

// tail returns the last lines of a log.
func tail(file string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

package subprocess

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
)

// Status of a process.
type Status string

// The possible statuses of a process that is identified by pid and start.
const (
	Running Status = "running"
	Frozen  Status = "frozen"
	Gone    Status = "not running"
)

// tailLines is the number of log lines that Death shows.
const tailLines = 20

// errNotRunning is the error of a signal to a process that was killed or died.
var errNotRunning = errors.New("the process does not run")

// Process is one run of a program in a process group of its own.
type Process struct {
	Cmd *exec.Cmd
	// Log is the file that its output is appended to.
	Log     string
	Started time.Time
	// Ended is closed when the process was waited for.
	Ended    chan struct{}
	expected atomic.Bool // its owner ends it, so its exit is not a death
}

// Run starts a program that appends its output to a log. If the program exits by itself, died is called once; nil does nothing.
func (s *Spawner) Run(cmd *exec.Cmd, log string, died func(*Process)) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the child has a descriptor of its own
	cmd.Stdout, cmd.Stderr = file, file
	p := &Process{Cmd: cmd, Log: log, Started: time.Now(), Ended: make(chan struct{})}
	if err := s.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	go func() {
		_ = cmd.Wait() // the status is in cmd.ProcessState
		close(p.Ended)
		if died != nil && p.HasDied() {
			died(p)
		}
	}()
	return p, nil
}

// IsRunning reports whether the process has not ended.
func (p *Process) IsRunning() bool {
	select {
	case <-p.Ended:
		return false
	default:
		return true
	}
}

// ExpectExit makes the end of the process no death.
func (p *Process) ExpectExit() { p.expected.Store(true) }

// HasDied reports whether the process has ended and was not expected to.
func (p *Process) HasDied() bool { return !p.IsRunning() && !p.expected.Load() }

// Death describes how the process ended, with the last lines of its log.
func (p *Process) Death() string {
	return fmt.Sprintf("%s; the last lines of %s:\n%s", p.Cmd.ProcessState, p.Log, p.Tail())
}

// Tail returns the last lines of the log.
func (p *Process) Tail() string {
	raw, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// signal sends a signal to the whole process group.
func (p *Process) signal(signal syscall.Signal) error {
	if !p.IsRunning() {
		return errNotRunning
	}
	if err := syscall.Kill(-p.Cmd.Process.Pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// Freeze suspends the process, and returns when it has stopped, which takes some time after the signal.
func (p *Process) Freeze() error { return p.setStatus(syscall.SIGSTOP, Frozen) }

// Thaw resumes a frozen process.
func (p *Process) Thaw() error { return p.setStatus(syscall.SIGCONT, Running) }

// setStatus sends a signal and waits for its effect. It polls, because the kernel does not notify of it.
func (p *Process) setStatus(signal syscall.Signal, want Status) error {
	if err := p.signal(signal); err != nil {
		return err
	}
	for p.IsRunning() {
		_, status, err := Inspect(p.Cmd.Process.Pid)
		if err == nil && status == want {
			return nil
		}
		<-time.After(time.Millisecond)
	}
	return errors.New("the process exited")
}

// Kill ends the process at once and waits until it is gone. It is not an error if it does not run.
func (p *Process) Kill() error {
	p.ExpectExit()
	if err := p.signal(syscall.SIGKILL); err != nil && p.IsRunning() {
		return err
	}
	<-p.Ended
	return nil
}

// Terminate sends SIGTERM and kills the process after the grace period, or when ctx ends. A frozen process is killed,
// because it cannot handle the signal.
func (p *Process) Terminate(ctx context.Context, grace time.Duration) error {
	p.ExpectExit()
	if !p.IsRunning() {
		return nil
	}
	if _, status, _ := Inspect(p.Cmd.Process.Pid); status == Frozen || p.signal(syscall.SIGTERM) != nil {
		return p.Kill()
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.Ended:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return p.Kill()
}

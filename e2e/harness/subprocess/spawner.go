// Package subprocess starts processes that do not outlive this one.
package subprocess

import (
	"os/exec"
	"runtime"
)

// Spawner starts all its processes from one thread that lives as long as the Spawner. The parent-death signal requires that:
// Linux sends the signal when the forking thread ends, and a goroutine's usual thread can end at any time.
type Spawner struct {
	requests chan func()
}

// NewSpawner returns a spawner. Close ends it.
func NewSpawner() *Spawner {
	s := &Spawner{requests: make(chan func())}
	go func() {
		// Never unlocked: the thread ends with the goroutine and is not used for anything else.
		runtime.LockOSThread()
		for request := range s.requests {
			request()
		}
	}()
	return s
}

// Start starts a command in its own process group, so that Ctrl-C in a terminal reaches only this process. On Linux the kernel
// kills the command when this process dies, however that happens.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = attributes()
	done := make(chan error)
	s.requests <- func() { done <- cmd.Start() }
	return <-done
}

// Close ends the thread. On Linux this kills every process that it started and that still runs.
func (s *Spawner) Close() { close(s.requests) }

// Package subprocess starts processes that do not outlive this one.
package subprocess

import (
	"os/exec"
	"runtime"
)

// Spawner starts all its processes from one thread that lives as long as it does. The parent-death signal needs
// it: Linux sends the signal when the thread that forked ends, which for a goroutine's usual thread is any time.
type Spawner struct {
	requests chan func()
}

// NewSpawner returns a spawner; Close ends it.
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

// Start starts a command in a process group of its own, so that Ctrl-C in a terminal reaches us alone. On Linux
// the kernel kills it when we die, however that happens.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = attributes()
	done := make(chan error)
	s.requests <- func() { done <- cmd.Start() }
	return <-done
}

// Close ends the thread, and by that on Linux kills every process that it started and that still runs.
func (s *Spawner) Close() { close(s.requests) }

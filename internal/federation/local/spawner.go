package local

import (
	"os/exec"
	"runtime"
)

// spawner starts all processes from one thread that lives as long as it does. The parent-death signal needs it:
// Linux sends the signal when the thread that forked ends, which for a goroutine's usual thread is any time.
type spawner struct {
	requests chan func()
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func())}
	go func() {
		// Never unlocked: the thread ends with the goroutine and is not used for anything else.
		runtime.LockOSThread()
		for request := range s.requests {
			request()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	done := make(chan error)
	s.requests <- func() { done <- cmd.Start() }
	return <-done
}

// close ends the thread, and by that on Linux kills every process that it started and that still runs.
func (s *spawner) close() { close(s.requests) }

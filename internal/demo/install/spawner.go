package install

import (
	"os/exec"
	"runtime"
)

// spawner starts all processes from one thread that lives as long as it does: Linux sends the parent-death signal
// when the thread that forked ends, which for a goroutine's usual thread is any time.
type spawner struct{ requests chan func() }

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

func (s *spawner) close() { close(s.requests) }

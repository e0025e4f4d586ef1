package measure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// ProfilesVariable is the environment variable with the absolute path of the directory for profiles. If unset, no profiles are taken.
const ProfilesVariable = "BREAKWATER_PROFILES"

// TakesProfiles reports whether profiles are taken.
func TakesProfiles() bool { return os.Getenv(ProfilesVariable) != "" }

// Profile takes a CPU profile for the given time, and then a heap profile, for go tool pprof. It writes them to NAME-cpu.pprof and
// NAME-heap.pprof. done returns when they are written; the load must last until then.
func (p *Process) Profile(name string, long time.Duration) (done func()) {
	p.Helper()
	if !TakesProfiles() {
		return func() {}
	}
	keep := func(kind, path string) error {
		raw, err := p.get(p.profile, "/debug/pprof/"+path)
		if err != nil {
			return fmt.Errorf("take profile %s-%s: %w", name, kind, err)
		}
		return os.WriteFile(filepath.Join(os.Getenv(ProfilesVariable), name+"-"+kind+".pprof"), raw, 0o600)
	}
	finished := make(chan error, 1)
	go func() {
		finished <- errors.Join(keep("cpu", "profile?seconds="+strconv.Itoa(int(long.Seconds()))), keep("heap", "heap?gc=1"))
	}()
	return func() {
		p.Helper()
		p.must(<-finished)
	}
}

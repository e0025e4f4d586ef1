package measure

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ProfilesVariable is the environment variable with the directory for profiles, as text. If unset, no profiles are taken.
const ProfilesVariable = "BREAKWATER_PROFILES"

// TakesProfiles reports whether profiles are taken.
func TakesProfiles() bool { return os.Getenv(ProfilesVariable) != "" }

// Profile takes a CPU profile for the given time, and then a heap profile. It writes their top entries to NAME-cpu.txt and
// NAME-heap.txt. done returns when they are written; the load must last until then.
func (p *Process) Profile(name string, long time.Duration) (done func()) {
	p.Helper()
	if !TakesProfiles() {
		return func() {}
	}
	folder := os.Getenv(ProfilesVariable)
	finished := make(chan error, 1)
	go func() {
		seconds := strconv.Itoa(int(long.Seconds()))
		err := p.top(folder, name+"-cpu", "/debug/pprof/profile?seconds="+seconds)
		if err == nil {
			err = p.top(folder, name+"-heap", "/debug/pprof/heap?gc=1")
		}
		finished <- err
	}()
	return func() {
		p.Helper()
		p.must(<-finished)
	}
}

// top writes the top functions of a profile.
func (p *Process) top(folder, name, path string) error {
	raw, err := p.get(p.profile, path)
	if err != nil {
		return fmt.Errorf("take profile %s: %w", name, err)
	}
	file := filepath.Join(p.TempDir(), name+".pprof")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return err
	}
	arguments := []string{"tool", "pprof", "-top", "-nodecount=60"}
	if strings.HasSuffix(name, "-heap") {
		arguments = append(arguments, "-sample_index=inuse_space")
	} else {
		arguments = append(arguments, "-cum") // callers say more than the leaves, which are Go's runtime
	}
	text, err := exec.CommandContext(p.Context, "go", append(arguments, file)...).Output()
	if err != nil {
		return fmt.Errorf("read profile %s: %w", name, err)
	}
	return os.WriteFile(filepath.Join(folder, name+".txt"), []byte(withoutShapes(string(text))), 0o600)
}

// withoutShapes removes the type arguments of generic functions, which are longer than a screen.
func withoutShapes(text string) string {
	var out strings.Builder
	depth := 0
	for len(text) > 0 {
		switch {
		case strings.HasPrefix(text, "[go.shape"), depth > 0 && text[0] == '[':
			depth++
		case depth > 0 && text[0] == ']':
			depth--
		case depth == 0:
			out.WriteByte(text[0])
		}
		text = text[1:]
	}
	return out.String()
}

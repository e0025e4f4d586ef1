package kind

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recordingTB records how a test that calls Require ends.
type recordingTB struct {
	testing.TB
	outcome string
}

func (*recordingTB) Helper()        {}
func (*recordingTB) Cleanup(func()) {}

func (a *recordingTB) stop(outcome string) {
	a.outcome = outcome
	panic(a) // as FailNow and SkipNow never return
}

func (a *recordingTB) Skip(args ...any) { a.stop("skipped: " + fmt.Sprint(args...)) }
func (a *recordingTB) Skipf(format string, args ...any) {
	a.stop("skipped: " + fmt.Sprintf(format, args...))
}
func (a *recordingTB) Fatalf(format string, args ...any) {
	a.stop("failed: " + fmt.Sprintf(format, args...))
}

func runRequire() (outcome string) {
	a := &recordingTB{}
	defer func() {
		if panicked := recover(); panicked != nil && panicked != any(a) {
			panic(panicked)
		}
		outcome = a.outcome
	}()
	Require(a)
	return "ran"
}

func TestRequire(t *testing.T) {
	// Scripts in place of docker.
	const (
		noDocker = ""
		noDaemon = "echo no daemon >&2; exit 1"
		noImage  = `[ "$1" = version ] || { echo no such image >&2; exit 1; }`
		all      = "exit 0"
		ownImage = `[ "$1" = version ] || [ "$1" = pull ] || exit 1`
	)
	for claim, c := range map[string]struct {
		docker           string
		enabled, require string
		want             []string
	}{
		"it is not enabled":           {all, "", "", []string{"skipped", "make e2e BACKEND=kind"}},
		"docker is not installed":     {noDocker, "1", "", []string{"skipped", "kind needs the docker command"}},
		"no daemon answers":           {noDaemon, "1", "", []string{"skipped", "no docker daemon answers", "no daemon"}},
		"the image is missing":        {noImage, "1", "", []string{"skipped", "docker pull my/node:1", ImageVariable, "no such image"}},
		"kind's image is pulled":      {ownImage, "1", "", nil},
		"docker is required":          {noDocker, "1", "1", []string{"failed", RequireVariable, "kind needs the docker command"}},
		"the image is required":       {noImage, "", "1", []string{"failed", RequireVariable, "no such image"}},
		"docker and image exist":      {all, "1", "", nil},
		"both exist and are required": {all, "", "1", nil},
	} {
		t.Run(claim, func(t *testing.T) {
			folder := t.TempDir()
			if c.docker != noDocker {
				if err := os.WriteFile(filepath.Join(folder, "docker"), []byte("#!/bin/sh\n"+c.docker+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", folder)
			t.Setenv(EnabledVariable, c.enabled)
			t.Setenv(RequireVariable, c.require)
			t.Setenv(ImageVariable, "my/node:1")
			if c.docker == ownImage {
				t.Setenv(ImageVariable, "")
			}
			got := runRequire()
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			if c.want == nil && got != "" {
				t.Errorf("outcome %q, want the test to run", got)
			}
		})
	}
}

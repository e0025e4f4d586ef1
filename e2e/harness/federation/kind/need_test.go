package kind

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// attempt takes down how a test ends that has needs.
type attempt struct {
	testing.TB
	ended string
}

func (*attempt) Helper()        {}
func (*attempt) Cleanup(func()) {}

func (a *attempt) end(how string) {
	a.ended = how
	panic(a) // as FailNow and SkipNow never return
}

func (a *attempt) Skip(args ...any) { a.end("skipped: " + fmt.Sprint(args...)) }
func (a *attempt) Skipf(format string, args ...any) {
	a.end("skipped: " + fmt.Sprintf(format, args...))
}
func (a *attempt) Fatalf(format string, args ...any) {
	a.end("failed: " + fmt.Sprintf(format, args...))
}

func need() (ended string) {
	a := &attempt{}
	defer func() {
		if thrown := recover(); thrown != nil && thrown != any(a) {
			panic(thrown)
		}
		ended = a.ended
	}()
	Need(a)
	return "ran"
}

func TestNeeds(t *testing.T) {
	// What docker would say, told by its arguments.
	const (
		noDocker = ""
		noDaemon = "echo no daemon >&2; exit 1"
		noImage  = `[ "$1" = version ] || { echo no such image >&2; exit 1; }`
		all      = "exit 0"
	)
	for claim, c := range map[string]struct {
		docker           string
		enabled, require string
		want             []string
	}{
		"nobody asked for minutes":     {all, "", "", []string{"skipped", "make e2e-kind"}},
		"there is no docker":           {noDocker, "1", "", []string{"skipped", "containers of docker"}},
		"no daemon answers":            {noDaemon, "1", "", []string{"skipped", "no docker daemon answers", "no daemon"}},
		"the image is not there":       {noImage, "1", "", []string{"skipped", "docker pull my/node:1", ImageVariable, "no such image"}},
		"somebody relies on docker":    {noDocker, "1", "1", []string{"failed", RequireVariable, "containers of docker"}},
		"somebody relies on the image": {noImage, "", "1", []string{"failed", RequireVariable, "no such image"}},
		"all is there":                 {all, "1", "", nil},
		"all is there and relied upon": {all, "", "1", nil},
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
			got := need()
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			if c.want == nil && got != "" {
				t.Errorf("got %q, want it to run", got)
			}
		})
	}
}

package main

import (
	"encoding/json"
	"errors"
	"net"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/doctor"
)

// doctored runs doctor, and returns its output and exit code.
func doctored(t *testing.T, arguments ...string) (out, told string, code int) {
	t.Helper()
	out, _, err := run(t, "", append([]string{"doctor"}, arguments...)...)
	if err == nil {
		return out, "", 0
	}
	var exit exitError
	if !errors.As(err, &exit) {
		t.Fatalf("%q: an error without an exit code: %v", arguments, err)
	}
	return out, err.Error(), exit.code
}

func TestDoctorTellsByItsExitCode(t *testing.T) {
	h := newHub(t)
	silent := newHub(t)
	silent.beat(2 * time.Hour)
	away := writeContexts(t, "gone", map[string]*rest.Config{"gone": {Host: "https://127.0.0.1:1"}})
	mute := writeContexts(t, "mute", map[string]*rest.Config{"mute": {Host: silence(t)}})
	for claim, c := range map[string]struct {
		arguments []string
		code      int
		words     []string
	}{
		"all is well":                          {append([]string{"--check", "crds", "--cell", "none"}, h.flags...), exitUnseen, []string{"UNKNOWN", "cell none: apiserver", "1 check found nothing wrong"}},
		"a cell is silent":                     {append([]string{"--check", "cells"}, h.flags...), exitProblem, []string{"PROBLEM core: cells", "Cell " + silent.cell + " is silent", "-> docs/runbooks/cell-silent.md"}},
		"nobody may be asked":                  {append([]string{"--check", "crds,cells,protectors,finalizers,vanished", "--as", "eve", "-o", "wide"}, h.flags...), exitUnseen, []string{"UNKNOWN core: crds", "UNKNOWN core: cells", "UNKNOWN core: protectors", "UNKNOWN core: finalizers", "UNKNOWN core: vanished"}},
		"the core is away":                     {[]string{"--core", "gone=" + away, "--kubeconfig", h.flags[1]}, exitProblem, []string{"PROBLEM core gone: apiserver", "-> docs/runbooks/core-down.md"}},
		"the core says nothing":                {[]string{"--core", "mute=" + mute, "--kubeconfig", h.flags[1], "--timeout", "300ms"}, exitProblem, []string{"PROBLEM core mute: apiserver", "deadline exceeded"}},
		"whoever may be the core says nothing": {[]string{"--kubeconfig", mute, "--timeout", "300ms"}, exitUnseen, []string{"does not answer", "deadline exceeded"}},
		"no core is known":                     {[]string{"--kubeconfig", away}, exitUnseen, []string{"does not answer"}},
		"a check that is none":                 {append([]string{"--check", "moon"}, h.flags...), exitUnseen, []string{`--check "moon": want some of apiserver, cells`}},
	} {
		t.Run(claim, func(t *testing.T) {
			out, told, code := doctored(t, c.arguments...)
			if code != c.code {
				t.Errorf("exit code %d, want %d\n%s%s", code, c.code, out, told)
			}
			wantWords(t, out+told, c.words...)
		})
	}
}

// silence returns the address of a server that accepts connections and never responds.
func silence(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return "https://" + listener.Addr().String()
}

// The CRDs of the test plane are those of the program, and all clocks are those of one machine.
func TestDoctorFindsNothingWrongWithWhatIsWell(t *testing.T) {
	h := newHub(t)
	guardCells(t, testplane.Config(t), h.cell)
	out, told, code := doctored(t, append([]string{"--check", "crds,clock,rights,pods,versions,finalizers,exempt", "--cell", h.cell, "-o", "json"}, h.flags...)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s\n%s", code, told, out)
	}
	said := diagnosis{}
	if err := json.Unmarshal([]byte(out), &said); err != nil || said.Verdict != doctor.OK {
		t.Fatalf("%v: %+v", err, said)
	}
	seen := map[string]int{}
	for _, f := range said.Findings {
		seen[f.Where+" "+f.Check]++
	}
	for _, one := range []string{"core crds", "core rights", "core pods", "core finalizers", "all clock", "all versions", "cell " + h.cell + " exempt"} {
		if seen[one] != 1 {
			t.Errorf("%s was told %d times: %v", one, seen[one], seen)
		}
	}
}

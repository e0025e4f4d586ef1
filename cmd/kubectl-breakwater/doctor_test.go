package main

import (
	"encoding/json"
	"errors"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

// runDoctor runs doctor, and returns its output and exit code.
func runDoctor(t *testing.T, arguments ...string) (out, errOut string, code int) {
	t.Helper()
	out, _, err := runPlugin(t, "", append([]string{"doctor"}, arguments...)...)
	if err == nil {
		return out, "", 0
	}
	var exit cli.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("exit error of %q: %v, want one with an exit code", arguments, err)
	}
	return out, err.Error(), exit.Code
}

func TestDoctorExitCodes(t *testing.T) {
	h := newHub(t)
	silent := newHub(t)
	silent.setHeartbeat(2 * time.Hour)
	unreachable := writeContexts(t, "gone", map[string]*rest.Config{"gone": {Host: "https://127.0.0.1:1"}})
	unresponsive := writeContexts(t, "mute", map[string]*rest.Config{"mute": {Host: unresponsiveServer(t)}})
	for claim, c := range map[string]struct {
		arguments []string
		code      int
		words     []string
	}{
		"no problem":                 {append([]string{"--check", "crds", "--cell", "none"}, h.flags...), 2, []string{"UNKNOWN", "cell none: apiserver", "1 check found no problem"}},
		"a cell is silent":           {append([]string{"--check", "cells"}, h.flags...), 1, []string{"PROBLEM core: cells", "Cell " + silent.cell + " is silent", "-> docs/runbooks/cell-silent.md"}},
		"a user without permissions": {append([]string{"--check", "crds,cells,protectors,finalizers,vanished", "--as", "eve", "-o", "wide"}, h.flags...), 2, []string{"UNKNOWN core: crds", "UNKNOWN core: cells", "UNKNOWN core: protectors", "UNKNOWN core: finalizers", "UNKNOWN core: vanished"}},
		"a user without permissions, in short": {append([]string{"--check", "crds,cells,protectors,finalizers,vanished,rights,targets", "--as", "eve"}, h.flags...), 2, []string{
			"UNKNOWN core: rights", "You may not read CustomResourceDefinitions, Cells, PodProtectors, Events", "could not be completed: crds, cells, protectors, vanished, finalizers, targets. You lack permission to list podprotectors.breakwater.dev",
		}},
		"the core is unreachable":              {[]string{"--core", "gone=" + unreachable, "--kubeconfig", h.flags[1]}, 1, []string{"PROBLEM core gone: apiserver", "-> docs/runbooks/core-down.md"}},
		"the core does not respond":            {[]string{"--core", "mute=" + unresponsive, "--kubeconfig", h.flags[1], "--timeout", "300ms"}, 1, []string{"PROBLEM core mute: apiserver", "deadline exceeded"}},
		"the current context does not respond": {[]string{"--kubeconfig", unresponsive, "--timeout", "300ms"}, 2, []string{"does not answer", "deadline exceeded"}},
		"no core is configured":                {[]string{"--kubeconfig", unreachable}, 2, []string{"does not answer"}},
		"an unknown check":                     {append([]string{"--check", "moon"}, h.flags...), 2, []string{`--check "moon": want some of apiserver, cells`}},
	} {
		t.Run(claim, func(t *testing.T) {
			out, errOut, code := runDoctor(t, c.arguments...)
			if code != c.code {
				t.Errorf("exit code %d, want %d\n%s%s", code, c.code, out, errOut)
			}
			wantWords(t, out+errOut, c.words...)
			if claim == "a user without permissions, in short" {
				wantNoWords(t, out, "core: crds", "core: cells", "core: protectors", "cannot list resource")
			}
		})
	}
}

// unresponsiveServer returns the address of a server that accepts connections and never responds.
func unresponsiveServer(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return "https://" + listener.Addr().String()
}

// The CRDs of the test plane are those of the program, and all clocks are those of one machine.
func TestDoctorWithoutProblems(t *testing.T) {
	h := newHub(t)
	createCellWebhooks(t, testplane.Config(t), h.cell)
	out, errOut, code := runDoctor(t, append([]string{"--check", "crds,clock,rights,pods,versions,finalizers,exempt", "--cell", h.cell, "-o", "json"}, h.flags...)...)
	if code != 0 {
		t.Fatalf("exit code %d, want 0 or 1: %s\n%s", code, errOut, out)
	}
	result := struct {
		Verdict  findings.Verdict
		Findings []findings.Finding
	}{}
	if err := json.Unmarshal([]byte(out), &result); err != nil || result.Verdict != findings.OK {
		t.Fatalf("findings cannot be parsed: %v: %+v", err, result)
	}
	seen := map[string]int{}
	for _, f := range result.Findings {
		seen[f.Where+" "+f.Check]++
	}
	for _, one := range []string{"core crds", "core rights", "core pods", "core finalizers", "all clock", "all versions", "cell " + h.cell + " exempt"} {
		if seen[one] != 1 {
			t.Errorf("%s has %d findings, want 1: %v", one, seen[one], seen)
		}
	}
}

// Finished pods of a Job, and pods of other workloads, need no warning.
func TestDoctorWarnsOfRunningPodsOfJobs(t *testing.T) {
	h := newHub(t)
	createCellWebhooks(t, testplane.Config(t), h.cell)
	h.protect("web", 1, 2, func(*v1alpha1.PodProtector) {})
	createPod := func(name, job string, phase corev1.PodPhase) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}}
		if job != "" {
			p.Labels = map[string]string{findings.JobLabel: job}
		}
		p.Spec.Containers = []corev1.Container{{Name: "work", Image: "work"}}
		h.must(h.Create(t.Context(), p))
		p.Status.Phase = phase
		h.must(h.Status().Update(t.Context(), p))
	}
	arguments := append([]string{"--check", "protectors", "--cell", h.cell, "-o", "wide"}, h.flags...)
	createPod("web", "", corev1.PodRunning)
	createPod("done", "finished", corev1.PodSucceeded)
	out, _, _ := runDoctor(t, arguments...)
	wantWords(t, out, "No protector covers running pods of a Job.")
	createPod("busy", "train", corev1.PodRunning)
	out, _, _ = runDoctor(t, arguments...)
	wantWords(t, out, "WARNING cell "+h.cell+": protectors", "running pods of Jobs: "+h.namespace+"/web (Job train).")
}

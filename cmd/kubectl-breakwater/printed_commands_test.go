package main

import (
	"io"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/breakwater-k8s/breakwater/internal/cli"
)

func TestPrintedCommandsHaveTheFlagsOfTheRunningOne(t *testing.T) {
	const text = "run kubectl breakwater force pod/web -n shop, then kubectl breakwater cells; kubectl breakwater is a plugin\n"
	for claim, c := range map[string]struct {
		arguments []string
		want      string
	}{
		"none": {[]string{"explain"}, text},
		"a context": {
			[]string{"explain", "--context", "worker-1"},
			"run kubectl breakwater force --context worker-1 pod/web -n shop, then kubectl breakwater cells --context worker-1; kubectl breakwater is a plugin\n",
		},
		"a cell, which only some commands take": {
			[]string{"explain", "--cell", "worker-2", "--core-context", "my hub"},
			"run kubectl breakwater force --core-context 'my hub' --cell worker-2 pod/web -n shop, then kubectl breakwater cells --core-context 'my hub'; " +
				"kubectl breakwater is a plugin\n",
		},
		"several cores": {
			[]string{"status", "--core", "a=x", "--core", "b=it's"},
			"run kubectl breakwater force --core a=x --core 'b=it'\\''s' pod/web -n shop, then kubectl breakwater cells --core a=x --core 'b=it'\\''s'; " +
				"kubectl breakwater is a plugin\n",
		},
	} {
		t.Run(claim, func(t *testing.T) {
			streams, _, out, _ := genericiooptions.NewTestIOStreams()
			root := rootCommand(streams)
			running, arguments, err := root.Find(c.arguments)
			if err == nil {
				err = running.ParseFlags(arguments)
			}
			if err == nil {
				err = root.PersistentPreRunE(running, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			if n, err := io.WriteString(root.OutOrStdout(), text); err != nil || n != len(text) || out.String() != c.want {
				t.Errorf("Write() = %d, %v and wrote %q, want %q", n, err, out.String(), c.want)
			}
		})
	}
}

// The error that ends a command has the flags of the command in the commands that it prints.
func TestErrorsThatEndACommandLocateTheirCommands(t *testing.T) {
	h := newHub(t)
	streams, _, _, errOut := genericiooptions.NewTestIOStreams()
	root := rootCommand(streams)
	root.SetArgs(append([]string{"status", "none"}, h.flags...))
	if code := cli.ExitCode(t.Context(), root); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	want := "kubectl breakwater status --kubeconfig " + h.flags[1] + " -A"
	if !strings.Contains(errOut.String(), want) {
		t.Fatalf("error %q does not contain %q", errOut.String(), want)
	}
	_, _, err := runPlugin(t, "", strings.Fields(strings.TrimPrefix(want, "kubectl breakwater "))...)
	wantErrors(t, err, nil)
}

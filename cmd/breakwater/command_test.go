package main

import (
	"bytes"
	"strings"
	"testing"
)

// run runs a command to its end, and returns what it wrote to standard output and to standard error.
func run(t *testing.T, in string, arguments ...string) (out, log string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command := rootCommand()
	command.SetIn(strings.NewReader(in))
	command.SetOut(&stdout)
	command.SetErr(&stderr)
	command.SetArgs(arguments)
	err = command.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// ask is run of a command that reads nothing, and whose standard error does not matter.
func ask(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	out, _, err := run(t, "", arguments...)
	return out, err
}

// wantRefusal demands that a command line is refused with these words.
func wantRefusal(t *testing.T, words string, arguments ...string) {
	t.Helper()
	if _, _, err := run(t, "", arguments...); err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("error %v, want one that says %q", err, words)
	}
}

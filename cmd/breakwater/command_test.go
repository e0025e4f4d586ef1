package main

import (
	"bytes"
	"strings"
	"testing"
)

// runCommand runs a command to its end, and returns its standard output and standard error.
func runCommand(t *testing.T, in string, arguments ...string) (out, log string, err error) {
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

// commandOutput is like run, without standard input and standard error.
func commandOutput(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	out, _, err := runCommand(t, "", arguments...)
	return out, err
}

// wantError checks that a command line fails with an error that contains words.
func wantError(t *testing.T, words string, arguments ...string) {
	t.Helper()
	if _, _, err := runCommand(t, "", arguments...); err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("error %v, want one that contains %q", err, words)
	}
}

func TestProcessIdentityIsUnique(t *testing.T) {
	if a, b := processIdentity(), processIdentity(); a == b {
		t.Errorf("two processes of one host and process ID have the identity %q, want two", a)
	}
}

package gitops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// Output runs a built program with the given standard input, and returns its standard output.
func Output(ctx context.Context, stdin []byte, name string, arguments ...string) ([]byte, error) {
	path, err := local.BuiltProgram(name)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, path, arguments...)
	command.Stdin = bytes.NewReader(stdin)
	return waitForOutput(command)
}

// root is the path of the repository's folder from the tests below e2e.
const root = "../.."

// waitForOutput runs a command to its end and returns its standard output. Its error includes the command's standard error.
func waitForOutput(command *exec.Cmd) ([]byte, error) {
	out, err := command.Output()
	exit := &exec.ExitError{}
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", filepath.Base(command.Path), strings.Join(command.Args[1:], " "), err)
	}
	return out, nil
}

// runInToolModule runs a command in a tool module, which pins its own versions.
func runInToolModule(ctx context.Context, module, name string, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = filepath.Join(root, "hack", "tools", module)
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	return waitForOutput(command)
}

// ModuleFolder returns the folder in which the go command keeps a module that a tool module requires.
func ModuleFolder(ctx context.Context, tool, module string) (string, error) {
	out, err := runInToolModule(ctx, tool, "go", "list", "-m", "-f", "{{.Dir}}", module)
	return strings.TrimSpace(string(out)), err
}

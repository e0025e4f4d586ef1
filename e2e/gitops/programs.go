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

// Output runs a built program with what it reads, and returns what it prints.
func Output(ctx context.Context, stdin []byte, name string, arguments ...string) ([]byte, error) {
	path, err := local.BuiltProgram(name)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, path, arguments...)
	command.Stdin = bytes.NewReader(stdin)
	return waitForOutput(command)
}

// root is the folder of the repository, as tests below e2e see it.
const root = "../.."

// waitForOutput runs a command to its end. Its error tells what the command complained about.
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

// runInToolModule runs a command in a tool module, which pins versions of its own.
func runInToolModule(ctx context.Context, module, name string, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = filepath.Join(root, "hack", "tools", module)
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	return waitForOutput(command)
}

// ModuleFolder is where the go command keeps a module that a tool module requires.
func ModuleFolder(ctx context.Context, tool, module string) (string, error) {
	out, err := runInToolModule(ctx, tool, "go", "list", "-m", "-f", "{{.Dir}}", module)
	return strings.TrimSpace(string(out)), err
}

package e2e

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
)

// Command is a program that runs against a cluster in the same way as users run it. Its output grows while it runs.
type Command struct {
	subprocess.Output
	process *exec.Cmd
	ended   chan struct{}
	err     error
}

// StartTool starts a program that make has built, such as kubectl or helm, with the kubeconfig of a cluster and an empty home folder. The
// program is killed when ctx ends.
func StartTool(ctx context.Context, tb testing.TB, tool, kubeconfig string, arguments ...string) *Command {
	tb.Helper()
	program, err := local.BuiltProgram(tool)
	if err != nil {
		tb.Fatal(err)
	}
	c := &Command{process: exec.CommandContext(ctx, program, arguments...), ended: make(chan struct{})}
	c.process.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+tb.TempDir())
	c.process.Stdout, c.process.Stderr = &c.Output, &c.Output
	if err := c.process.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		c.err = c.process.Wait()
	}()
	return c
}

// RunTool runs a program to its end and returns its output. The test ends if the program fails.
func RunTool(ctx context.Context, tb testing.TB, tool, kubeconfig string, arguments ...string) string {
	tb.Helper()
	c := StartTool(ctx, tb, tool, kubeconfig, arguments...)
	if err := c.Wait(); err != nil {
		tb.Fatalf("%s %s with kubeconfig %s: %v:\n%s", tool, strings.Join(arguments, " "), kubeconfig, err, c)
	}
	return c.String()
}

// HasEnded reports whether the program has ended.
func (c *Command) HasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// Wait waits until the program ends. It returns the error of exec.Cmd.Wait.
func (c *Command) Wait() error {
	<-c.ended
	return c.err
}

// Interrupt sends SIGINT to the program, like Ctrl-C.
func (c *Command) Interrupt() error { return c.process.Process.Signal(syscall.SIGINT) }

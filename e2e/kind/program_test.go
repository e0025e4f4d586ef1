package kind_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// program finds a tool where make has put it.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := local.BuiltProgram(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// command is a tool that runs against a cluster.
type command struct {
	said  e2e.Output
	ended chan struct{}
	err   error
}

// launch starts a tool.
func launch(ctx context.Context, t testing.TB, tool string, cluster federation.Cluster, arguments ...string) *command {
	t.Helper()
	c := &command{ended: make(chan struct{})}
	process := exec.CommandContext(ctx, program(t, tool), arguments...)
	process.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig(), "HOME="+t.TempDir())
	process.Stdout, process.Stderr = &c.said, &c.said
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		c.err = process.Wait()
	}()
	return c
}

// call runs a tool to its end and fails the test when it fails.
func call(ctx context.Context, t testing.TB, tool string, cluster federation.Cluster, arguments ...string) string {
	t.Helper()
	c := launch(ctx, t, tool, cluster, arguments...)
	<-c.ended
	if c.err != nil {
		t.Fatalf("%s %s in cluster %s: %v:\n%s", tool, strings.Join(arguments, " "), cluster.Name(), c.err, &c.said)
	}
	return c.said.String()
}

// hasEnded tells whether the tool has ended. Only then err is set.
func (c *command) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

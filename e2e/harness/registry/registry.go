// Package registry runs an OCI registry, built from hack/tools, for tests that push releases and install from it.
package registry

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// Start starts a registry on a free port of an IP address of this machine, without TLS, and returns its address. It stops when the test ends.
func Start(tb testing.TB, ip string) string {
	tb.Helper()
	program, err := local.BuiltProgram("registry")
	if err != nil {
		tb.Fatal(err)
	}
	_, port, err := net.SplitHostPort(testplane.FreeAddress(tb))
	if err != nil {
		tb.Fatal(err)
	}
	folder, address := tb.TempDir(), net.JoinHostPort(ip, port)
	configuration := filepath.Join(folder, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: %q, secret: test}\n", filepath.Join(folder, "data"), address)
	if err := os.WriteFile(configuration, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, "serve", configuration)
	command.Stderr, command.Env = tb.Output(), append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	if err := command.Start(); err != nil {
		stop()
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		stop()
		_ = command.Wait() // stop killed it
	})
	testplane.Eventually(tb, func() string {
		if err := subprocess.CheckURL(ctx, &http.Client{Timeout: time.Second}, "http://"+address+"/v2/"); err != nil {
			return err.Error()
		}
		return ""
	})
	return address
}

package gitops_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/e2e/gitops"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
)

// systemNamespace is the namespace of everything that Flux syncs here.
const systemNamespace = "breakwater-system"

// root is the path of the repository's folder from this package.
const root = "../.."

// Fixture is a cluster that is core and worker. In it, Flux syncs Breakwater from a Git repository.
type Fixture struct {
	*gitops.ProcessHost
	federation *local.Federation
	repository *gitops.Repository
	kubelet    *release.Kubelet
	webhooks   *install.Balancer
}

// All tests share fixture, because its setup takes half a minute. Each test leaves it in sync, except the last one, which prunes it.
var fixture = &Fixture{}

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 4*gitops.WaitTimeout)
	defer cancel()
	log.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "breakwater-gitops-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	defer fixture.stop()
	if err := fixture.startFixture(ctx, dir); err != nil {
		fmt.Fprintln(os.Stderr, "cannot set up the GitOps tests:", err)
		if fixture.ProcessHost != nil {
			fixture.PrintLogs()
		}
		return 1
	}
	code := m.Run()
	if code != 0 {
		fixture.PrintLogs()
	}
	return code
}

func (s *Fixture) startFixture(ctx context.Context, dir string) error {
	topology, err := federation.Embedded("single")
	if err != nil {
		return err
	}
	s.federation, err = local.Start(ctx, topology, local.Options{
		Binaries: filepath.SplitList(os.Getenv(local.BinariesVariable)), Dir: filepath.Join(dir, "federation"), Log: logr.Discard(),
	})
	if err != nil {
		return err
	}
	if s.ProcessHost, err = gitops.NewProcessHost(s.federation.Clusters()[0], dir); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		s.buildProgram, s.installDefinitions, s.startCertManager, func(ctx context.Context) error { return s.StartFlux(ctx, systemNamespace) },
		s.startKubelet, s.fillRepository, s.applyRendered, s.waitForSync, s.waitForWebhook,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// buildProgram builds breakwater.
func (s *Fixture) buildProgram(ctx context.Context) error {
	command := exec.CommandContext(ctx, "go", "build", "-o", s.Path("breakwater"), "github.com/breakwater-k8s/breakwater/cmd/breakwater")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// startKubelet starts what runs Breakwater's pods as processes, once Flux has applied their Deployments.
func (s *Fixture) startKubelet(context.Context) error {
	pods := s.Path("pods")
	if err := os.Mkdir(pods, 0o700); err != nil {
		return err
	}
	var err error
	if s.kubelet, err = release.StartKubelet(s.Cluster, s.Path("breakwater"), pods); err != nil {
		return err
	}
	s.webhooks, err = install.NewBalancer(s.kubelet.Webhooks)
	return err
}

func (s *Fixture) stop() {
	if s.kubelet != nil {
		s.kubelet.Close()
	}
	if s.webhooks != nil {
		s.webhooks.Close()
	}
	if s.repository != nil {
		s.repository.Close()
	}
	if s.ProcessHost != nil {
		s.Close() // ends all processes
	}
	if s.federation != nil {
		if err := s.federation.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// noErrors ends the test if there is an error.
func noErrors(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

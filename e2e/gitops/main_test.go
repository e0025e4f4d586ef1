package gitops_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/internal/children"
	"github.com/breakwater-k8s/breakwater/internal/federation"
	"github.com/breakwater-k8s/breakwater/internal/federation/local"
	"github.com/breakwater-k8s/breakwater/internal/federation/port"
	"github.com/breakwater-k8s/breakwater/internal/fleet"
)

// patience bounds every wait.
const patience = time.Minute

// system is the namespace of everything that Flux syncs here.
const system = "breakwater-system"

// Stage is a cluster that is core and worker, in which Flux syncs Breakwater from a Git repository.
type Stage struct {
	client.Client
	dir        string
	federation *local.Federation
	cluster    federation.Cluster
	spawner    *children.Spawner
	repository *repository
	kubelet    *kubelet
	webhook    string // host:port that the apiserver asks

	mu     sync.Mutex
	claims []*port.Claim // until it stops
}

// stage is what all tests share: it takes half a minute to set up. The tests leave it in sync; the one that prunes comes last.
var stage *Stage

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	log.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "breakwater-gitops-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	stage = &Stage{dir: dir, spawner: children.NewSpawner()}
	defer os.RemoveAll(dir)
	defer stage.stop()
	if err := stage.start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "set up the GitOps tests:", err)
		stage.printLogs()
		return 1
	}
	code := m.Run()
	if code != 0 {
		stage.printLogs()
	}
	return code
}

func (s *Stage) start(ctx context.Context) error {
	topology, err := federation.Embedded("single")
	if err != nil {
		return err
	}
	s.federation, err = local.Start(ctx, topology, local.Options{
		Binaries: programFolders(), Dir: s.path("federation"), Log: logr.Discard(),
	})
	if err != nil {
		return err
	}
	s.cluster = s.federation.Clusters()[0]
	if s.Client, err = client.New(s.cluster.RESTConfig(), client.Options{Scheme: fleet.Scheme()}); err != nil {
		return err
	}
	if err := s.build(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		s.installDefinitions, s.startCertManager, s.startFlux, s.startKubelet, s.fillRepository, s.sync, s.awaitSync, s.awaitGuard,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stage) stop() {
	if s.kubelet != nil {
		s.kubelet.stop()
	}
	if s.repository != nil {
		s.repository.stop()
	}
	s.spawner.Close() // ends all processes
	if s.federation != nil {
		if err := s.federation.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// freeAddress is a host:port for a process of the stage.
func (s *Stage) freeAddress() (string, error) {
	claim, err := port.Take()
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims = append(s.claims, claim)
	return claim.Address(), nil
}

func (s *Stage) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// await waits until look says "", and tells its last word otherwise.
func await(ctx context.Context, what string, look func() string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		word := look()
		if word == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %s", what, word)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// must ends the test if there is an error.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

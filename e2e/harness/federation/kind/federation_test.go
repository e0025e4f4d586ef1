package kind_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/kind"
)

// waitTimeout bounds each wait, also on a small machine.
const waitTimeout = 3 * time.Minute

func TestFederationOfOneCluster(t *testing.T) {
	options := kind.Require(t)
	topology, err := federation.Embedded("single")
	if err != nil {
		t.Fatal(err)
	}
	options.Nodes, options.Log = 1, testr.New(t)
	f := kind.StartForTest(t, topology, options)
	found, ok := f.Cluster("main")
	if !ok || len(f.Cores()) != 1 || len(f.Workers()) != 1 || len(f.Clusters()) != 1 {
		t.Fatalf("clusters: %v", f.Clusters())
	}
	c := found.(*kind.Cluster)
	clients, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	answers := func(ctx context.Context) error { return clients.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() }

	t.Run("has a kubeconfig for this machine and one for pods", func(t *testing.T) { wantKubeconfigs(t, c) })
	t.Run("loads images from an archive", func(t *testing.T) { wantImage(t, f, c) })
	t.Run("does not answer while its API server is frozen", func(t *testing.T) {
		must(t, c.Freeze(federation.APIServer))
		wantNoAnswer(t, answers)
		must(t, c.Thaw(federation.APIServer))
		must(t, answers(t.Context()))
	})
	t.Run("does not answer while its node is paused", func(t *testing.T) {
		must(t, c.Pause(t.Context(), c.Nodes()[0]))
		wantNoAnswer(t, answers)
		must(t, c.Unpause(t.Context(), c.Nodes()[0]))
		must(t, answers(t.Context()))
	})
	t.Run("can be cut off by a proxy", func(t *testing.T) {
		p, err := c.Proxy(t.Context())
		must(t, err)
		through, err := kubernetes.NewForConfig(p.RESTConfig())
		must(t, err)
		must(t, through.RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error())
		must(t, p.Close())
		if through.RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error() == nil {
			t.Error("the API server answers through a closed proxy")
		}
	})
	t.Run("answers again after its API server restarts", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		defer cancel()
		must(t, c.Restart(ctx, federation.APIServer))
		must(t, answers(ctx))
	})
	t.Run("returns an error for a fault of kwok", func(t *testing.T) {
		if err := c.Kill(federation.Kwok); err == nil || !strings.Contains(err.Error(), "has no component kwok") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("is deleted while a node is paused", func(t *testing.T) {
		must(t, c.Pause(t.Context(), c.Nodes()[0]))
		must(t, f.Stop(t.Context()))
		if _, err := os.Stat(f.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its directory still exists: %v", err)
		}
		if left := containers(t); slices.Contains(left, c.Nodes()[0]) {
			t.Errorf("containers still exist: %v", left)
		}
	})
}

func TestStartIsInterruptible(t *testing.T) {
	options := kind.Require(t)
	topology, err := federation.Embedded("single")
	if err != nil {
		t.Fatal(err)
	}
	before := containers(t)
	fresh := func() []string {
		return slices.DeleteFunc(containers(t), func(name string) bool { return slices.Contains(before, name) })
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	go func() {
		// Interrupt when a node exists but the control plane does not.
		_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, waitTimeout, true, func(context.Context) (bool, error) {
			return len(fresh()) > 0, nil
		})
		cancel(interrupted)
	}()
	options.Nodes, options.Dir = 1, filepath.Join(t.TempDir(), "f")
	_, err = kind.Start(ctx, topology, options)
	if !errors.Is(err, interrupted) {
		t.Errorf("got %v", err)
	}
	if left := fresh(); len(left) > 0 {
		t.Errorf("containers still exist: %v", left)
	}
	if left, err := os.ReadDir(options.Dir); err != nil || len(left) > 0 {
		t.Errorf("files still exist: %v, %v", left, err)
	}
}

func wantKubeconfigs(t *testing.T, c *kind.Cluster) {
	t.Helper()
	for file, want := range map[string]string{c.Kubeconfig(): c.RESTConfig().Host, c.InternalKubeconfig(): c.InternalServer()} {
		config, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil || config.Host != want || len(config.CAData) == 0 {
			t.Errorf("kubeconfig %s has server %v, want %s: %v", file, config, want, err)
		}
	}
	if want := "https://" + c.Nodes()[0] + ":6443"; c.InternalServer() != want {
		t.Errorf("InternalServer() = %s, want %s", c.InternalServer(), want)
	}
}

func wantImage(t *testing.T, f *kind.Federation, c *kind.Cluster) {
	t.Helper()
	image, err := random.Image(1024, 1)
	must(t, err)
	tag, err := name.NewTag("localhost/any:1")
	must(t, err)
	archive := filepath.Join(t.TempDir(), "image.tar")
	must(t, tarball.WriteToFile(archive, tag, image))
	must(t, f.LoadImage(t.Context(), archive))
	out, err := exec.Command("docker", "exec", c.Nodes()[0], "ctr", "--namespace=k8s.io", "images", "list", "-q").CombinedOutput()
	if err != nil || !strings.Contains(string(out), tag.Name()) {
		t.Errorf("%v: the node does not have image %s:\n%s", err, tag.Name(), out)
	}
	if err := f.LoadImage(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("LoadImage() of a missing archive returned no error")
	}
}

func wantNoAnswer(t *testing.T, answers func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := answers(ctx); err == nil || ctx.Err() == nil {
		t.Errorf("the API server answers: %v, want no answer", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// containers returns the names of all nodes of all kind clusters.
func containers(t *testing.T) []string {
	out, err := exec.Command("docker", "ps", "-a", "--filter=label=io.x-k8s.kind.cluster", "--format={{.Names}}").Output()
	if err != nil {
		t.Error(err)
	}
	return strings.Fields(string(out))
}

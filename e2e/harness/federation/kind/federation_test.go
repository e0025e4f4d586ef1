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

// patience bounds what a small machine takes.
const patience = 3 * time.Minute

func TestAFederationOfOneCluster(t *testing.T) {
	options := kind.Need(t)
	topology, err := federation.Embedded("single")
	if err != nil {
		t.Fatal(err)
	}
	options.Nodes, options.Log = 1, testr.New(t)
	f := kind.Bring(t, topology, options)
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

	t.Run("is reached from here by one kubeconfig, from pods by another", func(t *testing.T) { wantKubeconfigs(t, c) })
	t.Run("takes images by archive", func(t *testing.T) { wantImage(t, f, c) })
	t.Run("says nothing while its apiserver is frozen", func(t *testing.T) {
		must(t, c.Freeze(federation.APIServer))
		wantSilence(t, answers)
		must(t, c.Thaw(federation.APIServer))
		must(t, answers(t.Context()))
	})
	t.Run("says nothing while its node is paused", func(t *testing.T) {
		must(t, c.Pause(t.Context(), c.Nodes()[0]))
		wantSilence(t, answers)
		must(t, c.Unpause(t.Context(), c.Nodes()[0]))
		must(t, answers(t.Context()))
	})
	t.Run("is cut off by a proxy", func(t *testing.T) {
		p, err := c.Proxy(t.Context())
		must(t, err)
		through, err := kubernetes.NewForConfig(p.RESTConfig())
		must(t, err)
		must(t, through.RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error())
		must(t, p.Close())
		if through.RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error() == nil {
			t.Error("it answers through a closed proxy")
		}
	})
	t.Run("has its apiserver again after a restart", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		must(t, c.Restart(ctx, federation.APIServer))
		must(t, answers(ctx))
	})
	t.Run("has no kwok to break", func(t *testing.T) {
		if err := c.Kill(federation.Kwok); err == nil || !strings.Contains(err.Error(), "has no kwok") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("goes away, paused as it is", func(t *testing.T) {
		must(t, c.Pause(t.Context(), c.Nodes()[0]))
		must(t, f.Stop(t.Context()))
		if _, err := os.Stat(f.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its folder is left: %v", err)
		}
		if left := containers(t); slices.Contains(left, c.Nodes()[0]) {
			t.Errorf("containers are left: %v", left)
		}
	})
}

func TestAStartThatIsInterrupted(t *testing.T) {
	options := kind.Need(t)
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
		// In the midst of it: a node is there, and the control plane is not.
		_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
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
		t.Errorf("containers are left: %v", left)
	}
	if left, err := os.ReadDir(options.Dir); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

func wantKubeconfigs(t *testing.T, c *kind.Cluster) {
	t.Helper()
	for file, want := range map[string]string{c.Kubeconfig(): c.RESTConfig().Host, c.InternalKubeconfig(): c.InternalServer()} {
		config, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil || config.Host != want || len(config.CAData) == 0 {
			t.Errorf("%s leads to %v, want %s: %v", file, config, want, err)
		}
	}
	if want := "https://" + c.Nodes()[0] + ":6443"; c.InternalServer() != want {
		t.Errorf("pods reach it by %s, want %s", c.InternalServer(), want)
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
		t.Errorf("%v: the node has not %s:\n%s", err, tag.Name(), out)
	}
	if err := f.LoadImage(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("an archive that is not there was loaded")
	}
}

func wantSilence(t *testing.T, answers func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := answers(ctx); err == nil || ctx.Err() == nil {
		t.Errorf("it answers: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// containers are the names of all nodes of all kind clusters.
func containers(t *testing.T) []string {
	out, err := exec.Command("docker", "ps", "-a", "--filter=label=io.x-k8s.kind.cluster", "--format={{.Names}}").Output()
	if err != nil {
		t.Error(err)
	}
	return strings.Fields(string(out))
}

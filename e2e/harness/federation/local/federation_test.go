package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

func TestFederatedTopology(t *testing.T) {
	topology, err := federation.Embedded("federated")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	f, err := local.Start(t.Context(), topology, local.Options{
		Binaries: binaries(), Dir: folder, Log: testr.NewWithOptions(t, testr.Options{Verbosity: 1}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(f.Clusters()); got != 3 {
		t.Errorf("%d clusters, want 3", got)
	}
	if got := len(f.Cores()); got != 1 {
		t.Errorf("%d cores, want 1", got)
	}
	if got := len(f.Workers()); got != 2 {
		t.Errorf("%d workers, want 2", got)
	}
	for _, c := range f.Clusters() {
		checkKubeconfig(t, c.Kubeconfig(), "")
		checkKubeconfig(t, f.Kubeconfig(), c.Name())
	}
	state, err := local.ReadState(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := checkAllExited(state); err != nil {
		t.Error(err)
	}
	wantOnlyLogs(t, folder)
	select {
	case death := <-f.Deaths():
		t.Errorf("a death was reported although Stop ended all components: %v", death)
	default:
	}
}

func fromFile(t *testing.T, file string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func checkKubeconfig(t *testing.T, file, name string) {
	t.Helper()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: file},
		&clientcmd.ConfigOverrides{CurrentContext: name}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clientset.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("%s, context %q: %v", file, name, err)
	}
}

func wantOnlyLogs(t *testing.T, folder string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) != ".log" && filepath.Base(path) != "federation.lock" {
			t.Errorf("file %s still exists", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestStartFails(t *testing.T) {
	start := func(t *testing.T, ctx context.Context, options local.Options) error {
		t.Helper()
		options.Log = logr.Discard()
		options.WithoutControllers = true
		f, err := local.Start(ctx, single(t), options)
		if err == nil {
			t.Fatalf("Start() succeeded, want an error: %v", f.Stop(context.Background()))
		}
		if left := processesIn(options.Dir); len(left) > 0 {
			t.Errorf("processes still run: %q", left)
		}
		return err
	}

	t.Run("immediately and with the last log lines when a component dies", func(t *testing.T) {
		err := start(t, t.Context(), local.Options{
			Binaries: binaries(), Dir: t.TempDir(), APIServerArguments: []string{"--no-such-flag"},
		})
		var death *local.Death
		if !errors.As(err, &death) {
			t.Fatalf("want a death, got: %v", err)
		}
		if death.Cluster != "main" || death.Component != federation.APIServer || !strings.HasPrefix(death.How, "exit status 1") ||
			!strings.Contains(death.How, "unknown flag: --no-such-flag") {
			t.Errorf("got %+v", death)
		}
	})
	t.Run("when the caller gives up", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		folder := t.TempDir()
		go func() {
			for len(processesIn(folder)) == 0 && ctx.Err() == nil {
				continue // until etcd runs
			}
			cancel(errors.New("the caller gave up"))
		}()
		err := start(t, ctx, local.Options{Binaries: binaries(), Dir: folder})
		if !strings.Contains(err.Error(), "the caller gave up") {
			t.Errorf("error %v does not have the cause", err)
		}
	})
	t.Run("with the names of all missing programs", func(t *testing.T) {
		err := start(t, t.Context(), local.Options{Binaries: []string{t.TempDir()}, Dir: t.TempDir()})
		for _, want := range []string{"etcd is not in any", "kube-apiserver is not in any", "make", "BREAKWATER_BINARIES"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error does not contain %q: %v", want, err)
			}
		}
	})
	t.Run("in a directory with other files, and does not change them", func(t *testing.T) {
		folder := t.TempDir()
		otherFile := filepath.Join(folder, "clusters", "mine")
		must(t, os.MkdirAll(otherFile, 0o700))
		f, err := local.Start(t.Context(), single(t), local.Options{Binaries: binaries(), Dir: folder, Log: logr.Discard()})
		if err == nil || !strings.Contains(err.Error(), "contains files that are not a federation's") {
			t.Errorf("got %v, %v", f, err)
		}
		if _, err := os.Stat(otherFile); err != nil {
			t.Error(err)
		}
	})
	t.Run("in a directory that another federation uses", func(t *testing.T) {
		folder := filepath.Dir(filepath.Dir(filepath.Dir(sharedCluster(t).Kubeconfig())))
		f, err := local.Start(t.Context(), single(t), local.Options{Binaries: binaries(), Dir: folder, Log: logr.Discard()})
		if !errors.Is(err, local.ErrRunning) {
			t.Errorf("got %v, %v", f, err)
		}
	})
}

// processesIn lists the child processes whose working directory is in that directory.
func processesIn(folder string) []string {
	var found []string
	for _, stat := range children(os.Getpid()) {
		pid, _, _ := strings.Cut(stat, " ")
		if where, err := os.Readlink("/proc/" + pid + "/cwd"); err == nil && strings.HasPrefix(where, folder) {
			found = append(found, stat)
		}
	}
	return found
}

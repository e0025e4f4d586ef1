package local_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

var _ federation.Faults = (*local.Cluster)(nil)

// startFederation starts a separate federation of one cluster for tests that would disturb other tests.
func startFederation(t *testing.T, options local.Options) (*local.Federation, *local.Cluster) {
	t.Helper()
	options.Binaries, options.Log = binaries(), logr.Discard()
	f, err := local.Start(t.Context(), single(t), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return f, cluster(t, f, "main")
}

func TestRestartKeepsDataAndPort(t *testing.T) {
	f, c := startFederation(t, local.Options{})
	api := clients(t, c)
	for _, component := range c.Components() {
		for _, how := range []string{"running", "killed", "frozen"} {
			t.Run(fmt.Sprintf("%s, %s", component, how), func(t *testing.T) {
				name := strings.ToLower(string(component) + "-" + how)
				if _, err := api.CoreV1().ConfigMaps("default").Create(t.Context(),
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				before := componentPID(t, f, component)
				switch how {
				case "killed":
					must(t, c.Kill(component))
				case "frozen":
					must(t, c.Freeze(component))
				}
				must(t, c.Restart(t.Context(), component))
				if after := componentPID(t, f, component); after == before {
					t.Errorf("pid %d before and after the restart, want a new one", before)
				}
				eventually(t, "the object still exists", func(ctx context.Context) error {
					_, err := api.CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{})
					return err
				})
			})
		}
	}
	t.Run("the cluster works after all restarts", func(t *testing.T) {
		namespace := newNamespace(t, api)
		_, err := api.AppsV1().Deployments(namespace).Create(t.Context(), deployment("web", 3, nil), metav1.CreateOptions{})
		must(t, err)
		eventually(t, "3 pods become ready", hasReady(api, namespace, 3, 3))
	})
	select {
	case death := <-f.Deaths():
		t.Errorf("a death was reported although the test ended every component: %v", death)
	default:
	}
}

// Changes after the backup are undone, and revisions return to the backup's or continue with a bump.
func TestRestoreEtcdReturnsToTheBackup(t *testing.T) {
	_, c := startFederation(t, local.Options{WithoutControllers: true})
	api := clients(t, c).CoreV1().ConfigMaps("default")
	create := func(name string) int {
		t.Helper()
		made, err := api.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
		version, err := strconv.Atoi(made.ResourceVersion)
		must(t, err)
		return version
	}
	etcd, err := c.DialEtcd()
	must(t, err)
	t.Cleanup(func() { _ = etcd.Close() })
	create("kept")
	backup := filepath.Join(t.TempDir(), "backup.db")
	saved, err := etcd.Snapshot(t.Context())
	must(t, err)
	raw, err := io.ReadAll(saved)
	must(t, err)
	must(t, os.WriteFile(backup, raw, 0o600))
	for _, bump := range []uint64{0, 1_000_000} {
		before := create("undone")
		for range 20 {
			before = create(fmt.Sprintf("undone-%d", before))
		}
		must(t, c.Kill(federation.APIServer))
		must(t, c.RestoreEtcd(t.Context(), backup, bump))
		must(t, c.Restart(t.Context(), federation.APIServer))
		eventually(t, "the API server serves the backup", func(ctx context.Context) error {
			_, err := api.Get(ctx, "kept", metav1.GetOptions{})
			return err
		})
		if _, err := api.Get(t.Context(), "undone", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("bumped by %d: an object that the restore removed exists: %v", bump, err)
		}
		if after := create("later"); (after > before) != (bump > 0) || bump > 0 && after < int(bump) {
			t.Errorf("bumped by %d: revision %d before and %d after the restore", bump, before, after)
		}
	}
}

func componentPID(t *testing.T, f *local.Federation, component federation.Component) int {
	t.Helper()
	state, err := local.ReadState(f.Dir())
	must(t, err)
	for _, entry := range state.Clusters[0].Components {
		if entry.Name == component {
			return entry.Process.PID
		}
	}
	t.Fatalf("no %s in %+v", component, state)
	return 0
}

func TestFrozenComponentDoesNothingUntilThawed(t *testing.T) {
	f, c := startFederation(t, local.Options{})
	api := clients(t, c)
	namespace := newNamespace(t, api)

	t.Run("a frozen scheduler binds no pod", func(t *testing.T) {
		must(t, c.Freeze(federation.Scheduler))
		_, err := api.AppsV1().Deployments(namespace).Create(t.Context(), deployment("web", 2, nil), metav1.CreateOptions{})
		must(t, err)
		eventually(t, "pods are created but not bound", hasReady(api, namespace, 2, 0))
		if got := statusOf(t, f, federation.Scheduler); got != local.Frozen {
			t.Errorf("the scheduler is %s, want %s", got, local.Frozen)
		}
		must(t, c.Thaw(federation.Scheduler))
		eventually(t, "pods become ready", hasReady(api, namespace, 2, 2))
	})
	t.Run("a frozen API server accepts connections and does not answer", func(t *testing.T) {
		must(t, c.Freeze(federation.APIServer))
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{}); ctx.Err() == nil {
			t.Errorf("the API server answered before the timeout: %v", err)
		}
		must(t, c.Thaw(federation.APIServer))
		eventually(t, "the API server answers again", hasReady(api, namespace, 2, 2))
	})
	t.Run("a killed API server refuses connections", func(t *testing.T) {
		must(t, c.Kill(federation.APIServer))
		_, err := api.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("want connection refused, got: %v", err)
		}
		must(t, c.Restart(t.Context(), federation.APIServer))
		eventually(t, "the API server answers again", hasReady(api, namespace, 2, 2))
	})
	t.Run("Freeze returns an error for a component that does not run", func(t *testing.T) {
		must(t, c.Kill(federation.Kwok))
		must(t, c.Kill(federation.Kwok))
		if err := c.Freeze(federation.Kwok); err == nil || !strings.Contains(err.Error(), "kwok of cluster main: the process does not run") {
			t.Errorf("got: %v", err)
		}
		if got := statusOf(t, f, federation.Kwok); got != local.Gone {
			t.Errorf("kwok is %s, want %s", got, local.Gone)
		}
	})
	t.Run("Stop ends frozen components", func(t *testing.T) {
		must(t, c.Freeze(federation.ControllerManager))
		state, err := local.ReadState(f.Dir())
		must(t, err)
		must(t, f.Stop(t.Context()))
		must(t, checkAllExited(state))
		if err := c.Kill(federation.Etcd); err == nil || !strings.Contains(err.Error(), "was stopped") {
			t.Errorf("a fault after Stop: %v", err)
		}
	})
}

func statusOf(t *testing.T, f *local.Federation, component federation.Component) local.Status {
	t.Helper()
	state, err := local.ReadState(f.Dir())
	must(t, err)
	for _, entry := range state.Clusters[0].Components {
		if entry.Name == component {
			return entry.Process.Status()
		}
	}
	t.Fatalf("no %s in %+v", component, state)
	return ""
}

func TestDeathIsReported(t *testing.T) {
	f, c := startFederation(t, local.Options{WithoutControllers: true})
	if err := c.Kill(federation.Kwok); err == nil ||
		!strings.Contains(err.Error(), `cluster main has no component kwok; its components are ["etcd" "kube-apiserver"]`) {
		t.Errorf("Kill() of a component that the cluster does not have: %v", err)
	}
	state, err := local.ReadState(f.Dir())
	must(t, err)
	for _, entry := range state.Clusters[0].Components {
		if entry.Name == federation.APIServer {
			must(t, entry.Process.Signal(9))
		}
	}
	select {
	case death := <-f.Deaths():
		if death.Component != federation.APIServer || !strings.HasPrefix(death.How, "signal: killed") || strings.Count(death.How, "\n") != 20 {
			t.Errorf("got %+v", death)
		}
	case <-time.After(time.Minute):
		t.Fatal("no death was reported within a minute")
	}
	must(t, c.Restart(t.Context(), federation.APIServer))
	_, err = kubernetes.NewForConfigOrDie(c.RESTConfig()).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

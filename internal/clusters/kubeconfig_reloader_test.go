package clusters_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

func TestKubeconfigFileIsReloaded(t *testing.T) {
	namespace, admin := testplane.Namespace(t), kubernetes.NewForConfigOrDie(testplane.Config(t))
	file := filepath.Join(t.TempDir(), "kubeconfig")
	store := func(config *rest.Config) {
		t.Helper()
		if err := os.WriteFile(file, testplane.KubeconfigOf(t, config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := testplane.AsServiceAccount(t, testplane.Config(t), namespace, "first", "cluster-admin"), testplane.AsServiceAccount(t, testplane.Config(t), namespace, "second", "cluster-admin")
	store(first)
	config, reloader, err := clusters.Connection{Kubeconfig: file}.ReloadingConfig("test")
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != first.Host {
		t.Errorf("the configuration says that it leads to %s, want %s", config.Host, first.Host)
	}
	var logged atomic.Int64
	reloader.SetInterval()
	reloader.Log = funcr.New(func(string, string) { logged.Add(1) }, funcr.Options{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- reloader.Start(ctx) }()
	defer func() { stop(); <-ended }()

	clientset := kubernetes.NewForConfigOrDie(config)
	works := func() error {
		// The second cluster has no such namespace.
		_, err := clientset.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		return err
	}
	// The reloader uses none of these, and logs each once.
	bad, elsewhere := rest.CopyConfig(first), testplane.Second(t)
	bad.BearerToken = "bad"
	for number, step := range []func(){
		func() { _ = os.WriteFile(file, []byte("{"), 0o600) }, func() { store(bad) }, func() { store(elsewhere) },
	} {
		step()
		testplane.Eventually(t, func() string {
			if logged.Load() <= int64(number) {
				return "nothing is logged"
			}
			return ""
		})
		if err := works(); err != nil {
			t.Fatalf("after bad file %d: %v", number, err)
		}
	}

	store(second)
	testplane.Eventually(t, func() string {
		if logged.Load() < 4 {
			return "the second kubeconfig is not loaded"
		}
		return ""
	})
	if err := admin.CoreV1().ServiceAccounts(namespace).Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testplane.Eventually(t, func() string {
		_, err := kubernetes.NewForConfigOrDie(first).CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsUnauthorized(err) {
			return "the API server still accepts the first token"
		}
		return ""
	})
	if err := works(); err != nil {
		t.Errorf("with the second: %v", err)
	}
}

func TestOnlyFilesAreReloaded(t *testing.T) {
	t.Setenv("KUBECONFIG", testplane.Kubeconfig(t))
	if _, reloader, err := (clusters.Connection{}).ReloadingConfig("test"); err != nil || reloader != nil {
		t.Errorf("reloader %v, error %v, want neither", reloader, err)
	}
	if _, _, err := (clusters.Connection{Kubeconfig: "/nonexistent"}).ReloadingConfig("test"); err == nil {
		t.Error("a file that does not exist is followed")
	}
}

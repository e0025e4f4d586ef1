// Package testplane gives tests a real kube-apiserver and etcd with the CRDs of Breakwater installed.
package testplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/federation"
	"github.com/breakwater-k8s/breakwater/internal/federation/local"
)

// shared is the control plane of a test binary; it ends with the process, however that happens.
var shared struct { //nolint:gochecknoglobals // tests have no other place to share something expensive
	sync.Once
	federation *local.Federation
	err        error
}

// Main runs the tests of a package and stops the control plane that they shared; call it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if shared.federation != nil {
		if err := shared.federation.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "stop the test control plane:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Config returns an administrator's configuration, without a rate limit of the client's own, for the control
// plane that all tests of the binary share. The first call starts it.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	return plane(t).RESTConfig()
}

// Kubeconfig returns the path of a kubeconfig that says the same, for a process.
func Kubeconfig(t testing.TB) string {
	t.Helper()
	return plane(t).Kubeconfig()
}

// RestartAPIServer ends the apiserver and starts it again with the data that it had.
func RestartAPIServer(t testing.TB) {
	t.Helper()
	faults, ok := plane(t).(federation.Faults)
	if !ok {
		t.Fatal("this backend restarts no apiserver")
	}
	if err := faults.Restart(t.Context(), federation.APIServer); err != nil {
		t.Fatal(err)
	}
}

func plane(t testing.TB) federation.Cluster {
	t.Helper()
	shared.Do(start)
	if shared.err != nil {
		t.Fatalf("%v\n(make test builds the programs and says where they are)", shared.err)
	}
	return shared.federation.Clusters()[0]
}

// Namespace makes a namespace of its own for a test.
func Namespace(t testing.TB) string {
	t.Helper()
	namespaces := kubernetes.NewForConfigOrDie(Config(t)).CoreV1().Namespaces()
	namespace, err := namespaces.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	return namespace.Name
}

func start() {
	topology, err := federation.Embedded("single")
	if err != nil {
		shared.err = err
		return
	}
	shared.federation, shared.err = local.Start(context.Background(), topology, local.Options{
		Binaries:           filepath.SplitList(os.Getenv(local.BinariesVariable)),
		Log:                logr.Discard(),
		WithoutControllers: true,
		// Nobody makes the ServiceAccounts that pods would need.
		APIServerArguments: []string{"--disable-admission-plugins=ServiceAccount"},
	})
}

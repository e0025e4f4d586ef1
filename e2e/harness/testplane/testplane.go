// Package testplane gives tests a real kube-apiserver and etcd with the CRDs of Breakwater installed.
package testplane

import (
	"context"
	"errors"
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
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// plane is a control plane that the tests of a binary share. It ends with the process, however the process ends.
type plane struct {
	sync.Once
	federation *local.Federation
	err        error
	// dir contains its audit log.
	dir string
}

//nolint:gochecknoglobals // tests have no other place to share something expensive
var first, second plane

// Main runs the tests of a package, stops the control planes that they shared, and exits. Call it from TestMain.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for callers that have more to clean up. It returns the exit code.
func Run(m *testing.M) int {
	log.SetLogger(logr.Discard())
	code := m.Run()
	for _, p := range []*plane{&first, &second} {
		if err := p.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the test control plane:", err)
			code = max(code, 1)
		}
	}
	return code
}

// Config returns an administrator's configuration for the control plane that all tests of the binary share. It has no client-side
// rate limit. The first call starts the control plane.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	return first.cluster(t).RESTConfig()
}

// Second is like Config, for a second control plane, for tests that need another cluster.
func Second(t testing.TB) *rest.Config {
	t.Helper()
	return second.cluster(t).RESTConfig()
}

// Kubeconfig returns the path of a kubeconfig that is equivalent to Config, for a process.
func Kubeconfig(t testing.TB) string {
	t.Helper()
	return first.cluster(t).Kubeconfig()
}

// RestartAPIServer restarts the API server of the shared control plane. It keeps its data.
func RestartAPIServer(t testing.TB) {
	t.Helper()
	if err := first.cluster(t).Restart(t.Context(), federation.APIServer); err != nil {
		t.Fatal(err)
	}
}

// Namespace creates a namespace for one test.
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

func (p *plane) cluster(t testing.TB) *local.Cluster {
	t.Helper()
	p.Do(func() {
		var audit []string
		if audit, p.err = p.audit(); p.err == nil {
			p.federation, p.err = start(context.Background(), audit...)
		}
	})
	if p.err != nil {
		t.Fatalf("%v\n(run the tests with make test, which builds the programs and sets their paths)", p.err)
	}
	return p.federation.Members[0]
}

func (p *plane) stop() error {
	if p.federation == nil {
		return nil
	}
	return errors.Join(p.federation.Stop(context.Background()), os.RemoveAll(p.dir))
}

func start(ctx context.Context, apiServerArguments ...string) (*local.Federation, error) {
	topology, err := federation.Embedded("single")
	if err != nil {
		return nil, err
	}
	return local.Start(ctx, topology, local.Options{
		Binaries:           filepath.SplitList(os.Getenv(local.BinariesVariable)),
		Log:                logr.Discard(),
		WithoutControllers: true,
		// No controller creates the ServiceAccounts that pods would need.
		APIServerArguments: append([]string{"--disable-admission-plugins=ServiceAccount"}, apiServerArguments...),
	})
}

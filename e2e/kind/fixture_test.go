package kind_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/kind"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// waitTimeout bounds waits for real pods on a small machine. It includes the admission deadline of 65 s.
const waitTimeout = 4 * time.Minute

// nodesVariable is the environment variable with the number of nodes of each worker that run pods. One node is enough for all claims, and
// needs neither a network between nodes nor much memory.
const nodesVariable = "KIND_NODES"

// kindFixture is a federation of kind clusters with Breakwater installed. During a claim it also has the fixture of that claim.
type kindFixture struct {
	*fixture
	test     *testing.T
	suite    *e2e.Suite
	kind     *kind.Federation
	releases *releases
}

// startKindFixture starts a federation and installs Breakwater in it.
func startKindFixture(t *testing.T, name string, options kind.Options) *kindFixture {
	t.Helper()
	topology, err := federation.Embedded(name)
	noError(t, err)
	options.Log = newLogger(t)
	options.Nodes = 1
	if text := os.Getenv(nodesVariable); text != "" {
		options.Nodes, err = strconv.Atoi(text)
		noError(t, err)
	}
	images := buildImages(t)
	f := kind.StartForTest(t, topology, options)
	registry := ""
	if len(f.Clusters()) == 1 {
		registry = startRegistry(t, f.Clusters()[0].(*kind.Cluster))
	}
	for _, image := range images {
		if registry == "" || image.tag != firstVersion { // otherwise the node pulls it
			noError(t, f.LoadImage(t.Context(), image.archive))
		}
	}
	s := &kindFixture{test: t, kind: f}
	s.suite, err = e2e.NewSuiteOn(f)
	noError(t, err)
	s.suite.Timeout = waitTimeout
	s.releases = installCharts(t, f, images, registry)
	t.Cleanup(func() {
		if t.Failed() {
			s.releases.logComponents(t)
		}
	})
	s.waitForWebhooks()
	return s
}

// claim runs a subtest with its own fixture.
func (s *kindFixture) claim(name string, verify func(*kindFixture)) {
	s.test.Run(name, func(t *testing.T) {
		here := *s
		here.fixture = s.suite.NewFixture(t, nil)
		began := time.Now()
		verify(&here)
		t.Logf("proved in %s", time.Since(began).Round(time.Second))
		here.deleteFixture()
	})
}

// deleteFixture deletes the fixture's protectors and namespaces to free capacity for the next claim. A node runs about a hundred pods.
func (s *kindFixture) deleteFixture() {
	s.Helper()
	for _, core := range s.Cores {
		web := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "web"}}
		// Unconfirmed, a deletion together with that of the namespace looks like an accident, and the floor stays.
		confirmation := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.AnnotationConfirmRelease)
		s.Must(core.Patch(s.Context(), web, client.RawPatch(types.MergePatchType, []byte(confirmation))))
		s.Must(core.Delete(s.Context(), web))
	}
	for _, cluster := range s.kind.Clusters() {
		c, err := install.Client(cluster)
		s.Must(err)
		s.Must(c.Delete(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}))
	}
	s.Eventually(func() string {
		for _, cell := range s.Cells {
			if left, err := cell.Client.CoreV1().Pods(s.Namespace).List(s.Context(), metav1.ListOptions{}); err != nil || len(left.Items) > 0 {
				return fmt.Sprintf("%d pods remain in cell %s after their floor was released: %v", len(left.Items), cell.Name, err)
			}
		}
		return ""
	})
}

// waitForWebhooks waits until the API server of each worker calls its webhook.
func (s *kindFixture) waitForWebhooks() {
	s.test.Helper()
	began := time.Now()
	here := *s
	here.fixture = s.suite.NewFixture(s.test, nil)
	here.CreateProtector(len(here.Cells))
	here.CreateBarePods(here.Application(len(here.Cells)))
	for _, cell := range here.Cells {
		here.Eventually(func() string {
			if err := here.dryRunRemoval(cell); storm.OutcomeOf(err) != storm.Denied {
				return fmt.Sprintf("the API server of cell %s does not call the webhook: %v", cell.Name, err)
			}
			return ""
		})
	}
	here.deleteFixture()
	s.test.Logf("FIGURE all cells are guarded %s after all components were ready", time.Since(began).Round(100*time.Millisecond))
}

// dryRunRemoval deletes a pod of a cell as a dry run and returns the answer.
func (s *kindFixture) dryRunRemoval(cell storm.Cell) error {
	pods := s.ExistingPods(cell)
	if len(pods) == 0 {
		s.Fatalf("cell %s has no pod", cell.Name)
	}
	return cell.Client.CoreV1().Pods(s.Namespace).Delete(s.Context(), pods[0].Name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
}

// cluster returns a cluster with the methods that only kind clusters have.
func (s *kindFixture) cluster(name string) *kind.Cluster {
	s.Helper()
	found, ok := s.kind.Cluster(name)
	if !ok {
		s.Fatalf("cluster %s does not exist", name)
	}
	return found.(*kind.Cluster)
}

func newLogger(t *testing.T) logr.Logger {
	return funcr.New(func(_, args string) { t.Log(args) }, funcr.Options{})
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// repositoryRoot returns the folder of the module.
func repositoryRoot(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../..")
	noError(t, err)
	return path
}

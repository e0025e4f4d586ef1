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

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/kind"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// patience bounds what takes real pods, on a small machine. The admission deadline of 65 s is a part of it.
const patience = 4 * time.Minute

// nodesVariable names the environment variable that says how many nodes of each worker run pods. One is enough for all claims,
// and needs neither a network between nodes nor much memory.
const nodesVariable = "KIND_NODES"

// site is a federation of kind clusters with Breakwater in it, and in a claim the lab of that claim.
type site struct {
	*lab
	test     *testing.T
	suite    *e2e.Suite
	kind     *kind.Federation
	releases *releases
}

// bringUp starts a federation, and installs Breakwater in it.
func bringUp(t *testing.T, name string, options kind.Options) *site {
	t.Helper()
	topology, err := federation.Embedded(name)
	must(t, err)
	options.Log = say(t)
	options.Nodes = 1
	if text := os.Getenv(nodesVariable); text != "" {
		options.Nodes, err = strconv.Atoi(text)
		must(t, err)
	}
	images := buildImages(t)
	f := kind.Bring(t, topology, options)
	for _, image := range images {
		must(t, f.LoadImage(t.Context(), image.archive))
	}
	s := &site{test: t, kind: f}
	s.suite, err = e2e.Over(f)
	must(t, err)
	s.suite.Patience = patience
	s.releases = installCharts(t, f, images)
	t.Cleanup(func() {
		if t.Failed() {
			s.releases.tell(t)
		}
	})
	s.awaitGuards()
	return s
}

// claim proves something in a lab of its own.
func (s *site) claim(name string, prove func(*site)) {
	s.test.Run(name, func(t *testing.T) {
		here := *s
		here.lab = s.suite.Lab(t, nil)
		began := time.Now()
		prove(&here)
		t.Logf("proved in %s", time.Since(began).Round(time.Second))
		here.leave()
	})
}

// leave makes room for the next claim: nodes take about a hundred pods.
func (s *site) leave() {
	s.Helper()
	for _, core := range s.Cores {
		s.Must(core.Delete(s.Context(), &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "web"}}))
	}
	for _, cluster := range s.kind.Clusters() {
		c, err := install.Client(cluster)
		s.Must(err)
		s.Must(c.Delete(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}))
	}
	s.Eventually(func() string {
		for _, cell := range s.Cells {
			if left, err := cell.Client.CoreV1().Pods(s.Namespace).List(s.Context(), metav1.ListOptions{}); err != nil || len(left.Items) > 0 {
				return fmt.Sprintf("%d pods are left in cell %s after their floor was given up: %v", len(left.Items), cell.Name, err)
			}
		}
		return ""
	})
}

// awaitGuards returns when each worker's apiserver has been seen to ask its webhook.
func (s *site) awaitGuards() {
	s.test.Helper()
	began := time.Now()
	here := *s
	here.lab = s.suite.Lab(s.test, nil)
	here.Protect(len(here.Cells))
	here.DeployBare(here.App(len(here.Cells)))
	for _, cell := range here.Cells {
		here.Eventually(func() string {
			if err := here.tryRemove(cell); storm.OutcomeOf(err) != storm.Refused {
				return fmt.Sprintf("cell %s is not guarded: %v", cell.Name, err)
			}
			return ""
		})
	}
	here.leave()
	s.test.Logf("FIGURE all cells are guarded %s after all components were ready", time.Since(began).Round(100*time.Millisecond))
}

// tryRemove gives the answer to a removal of some pod of a cell, which does not take place.
func (s *site) tryRemove(cell storm.Cell) error {
	pods := s.Pods(cell)
	if len(pods) == 0 {
		s.Fatalf("cell %s has no pod", cell.Name)
	}
	return cell.Client.CoreV1().Pods(s.Namespace).Delete(s.Context(), pods[0].Name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
}

// cluster is a cluster as kind knows it.
func (s *site) cluster(name string) *kind.Cluster {
	s.Helper()
	found, ok := s.kind.Cluster(name)
	if !ok {
		s.Fatalf("there is no cluster %s", name)
	}
	return found.(*kind.Cluster)
}

func say(t *testing.T) logr.Logger {
	return funcr.New(func(_, args string) { t.Log(args) }, funcr.Options{})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// root is the folder of the module.
func root(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../..")
	must(t, err)
	return path
}

package kind_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/kind"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// TestQuickstart runs docs/tutorials/quickstart.md in a new cluster, with nothing but the folder of a release. e2e/charts runs it where docker
// is missing.
func TestQuickstart(t *testing.T) {
	options := kind.Require(t)
	page, err := doctest.Read(repositoryRoot(t), "docs/tutorials/quickstart.md")
	noError(t, err)
	topology, err := federation.Embedded("single")
	noError(t, err)
	options.Log, options.Nodes = newLogger(t), 1 // the control plane's node
	f := kind.StartForTest(t, topology, options)
	cluster := f.Clusters()[0].(*kind.Cluster)
	// The kind command of the version that the tests link.
	programs := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(programs, "kind"), "sigs.k8s.io/kind")
	build.Dir = repositoryRoot(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build kind: %v\n%s", err, out)
	}
	helm, err := local.BuiltProgram("helm")
	noError(t, err)
	release := filepath.Join(t.TempDir(), "release")
	buildRelease(t, "-helm", helm, "-out", release)
	began := time.Now()
	page.Run(t, doctest.Options{
		Environments: []doctest.Environment{doctest.Cluster, doctest.Kind}, Folder: release, Timeout: 2 * waitTimeout,
		Variables: []string{
			"PATH=" + strings.Join([]string{programs, os.Getenv(local.BinariesVariable), os.Getenv("PATH")}, string(os.PathListSeparator)),
			"KUBECONFIG=" + cluster.Kubeconfig(), "KIND_CLUSTER_NAME=" + strings.TrimSuffix(cluster.Nodes()[0], "-control-plane"),
		},
	})
	t.Logf("FIGURE the quickstart took %s", roundedSince(began))
}

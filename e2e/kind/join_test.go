package kind_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/kind"
)

// joinClusters gives the components of each core access to the workers, and those of each worker access to the cores. A cluster that is
// both needs no join.
func (r *releases) joinClusters(t *testing.T) {
	t.Helper()
	breakwater := filepath.Join(t.TempDir(), "breakwater")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", breakwater, "./cmd/breakwater")
	build.Dir = repositoryRoot(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build breakwater: %v\n%s", err, out)
	}
	for _, core := range r.kind.Cores() {
		for _, worker := range r.kind.Workers() {
			if core.Name() != worker.Name() {
				r.joinCluster(t, breakwater, core, worker)
			}
		}
	}
}

func (r *releases) joinCluster(t *testing.T, breakwater string, core, worker federation.Cluster) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), breakwater, "join", "--core="+core.Name(), "--cell="+worker.Name(),
		"--core-kubeconfig="+core.Kubeconfig(), "--kubeconfig="+worker.Kubeconfig(),
		// Only pods can resolve the names of the containers, so the check cannot run here.
		"--core-server="+core.(*kind.Cluster).InternalServer(), "--worker-server="+worker.(*kind.Cluster).InternalServer(), "--skip-check",
	).CombinedOutput()
	if err != nil {
		t.Fatalf("join %s and %s: %v\n%s", core.Name(), worker.Name(), err, out)
	}
}

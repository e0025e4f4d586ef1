// Package node_test plays disasters of a cluster with real kubelets, without and with the node guard, and counts the containers that end. It
// takes minutes and needs docker. Run it with make e2e-node.
package node_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/kind"
)

// folder is where the report is written, in the root of the repository.
const folder = "node-report"

func TestNodeGuard(t *testing.T) {
	f := newFixture(t, kind.Require(t))
	f.play("without-guard/etcd-erased", (*fixture).eraseFromEtcd)
	f.installGuards()
	r := &report{Disasters: map[string]outcome{}, Without: f.outcomes}
	f.outcomes = nil
	for _, d := range []struct {
		name  string
		cause func(*fixture)
		fault func(*fixture) (repair func())
	}{
		{"etcd-erased", (*fixture).eraseFromEtcd, nil},
		{"etcd-erased/guards-killed", (*fixture).eraseFromEtcd, (*fixture).killGuards},
		{"etcd-erased/guards-frozen", (*fixture).eraseFromEtcd, (*fixture).freezeGuards},
		{"etcd-erased/kubelets-restarted", (*fixture).eraseFromEtcd, (*fixture).restartKubelets},
		{"other-cluster", (*fixture).visitOtherCluster, nil},
		{"etcd-restored", (*fixture).restoreEtcd, nil},
		{"etcd-restored/kubelets-restarted", (*fixture).restoreEtcd, (*fixture).restartKubelets},
	} {
		f.playWith(d.name, d.cause, d.fault)
	}
	f.deleteByForce()
	r.Disasters = f.outcomesByName()
	r.compute()
	if err := r.save(filepath.Join("..", "..", folder)); err != nil {
		t.Fatal(err)
	}
	r.check(t)
}

// settleTime is how long the report waits after a disaster for containers that end late.
const settleTime = 15 * time.Second

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
	type disaster struct {
		name  string
		cause func(*fixture)
		fault func(*fixture) (repair func())
	}
	play := func(all ...disaster) {
		for _, d := range all {
			f.playWith(d.name, d.cause, d.fault)
		}
	}
	play(
		disaster{"etcd-erased", (*fixture).eraseFromEtcd, nil},
		disaster{"etcd-erased/guards-killed", (*fixture).eraseFromEtcd, (*fixture).killGuards},
		disaster{"etcd-erased/guards-frozen", (*fixture).eraseFromEtcd, (*fixture).freezeGuards},
		disaster{"etcd-erased/guards-stopped", (*fixture).eraseFromEtcd, (*fixture).stopGuards},
		disaster{"etcd-erased/kubelets-restarted", (*fixture).eraseFromEtcd, (*fixture).restartKubelets},
		disaster{"etcd-erased/node-rebooted", (*fixture).eraseFromEtcd, (*fixture).rebootNode},
	)
	stop := f.startOtherCluster()
	play(
		disaster{"other-cluster", visitOtherCluster(nil), nil},
		disaster{"other-cluster/guards-killed-and-frozen", visitOtherCluster((*fixture).killAndFreezeGuards), nil},
		disaster{"other-cluster/node-rebooted", visitOtherCluster((*fixture).rebootNode), nil},
	)
	stop()
	play(
		disaster{"etcd-restored", (*fixture).restoreEtcd, nil},
		disaster{"etcd-restored/guards-killed-and-frozen", (*fixture).restoreEtcd, (*fixture).killAndFreezeGuards},
		disaster{"etcd-restored/kubelets-restarted", (*fixture).restoreEtcd, (*fixture).restartKubelets},
	)
	f.deleteByForce()
	f.pause(faultTime)
	r.Cost = f.cost()
	r.Disasters = f.outcomesByName()
	r.compute()
	if err := r.save(filepath.Join("..", "..", folder)); err != nil {
		t.Fatal(err)
	}
	r.check(t)
}

// settleTime is how long the report waits after a disaster for containers that end late.
const settleTime = 10 * time.Second

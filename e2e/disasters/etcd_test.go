package disasters_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// revisionBump is added to the revisions in a restore, as etcd recommends.
const revisionBump = 1_000_000_000

// etcdAccess returns a cluster whose etcd tests can access without its API server.
func (l fixture) etcdAccess(cluster federation.Cluster) *local.Cluster {
	l.Helper()
	access, ok := cluster.(*local.Cluster)
	if !ok {
		l.Skipf("the backend of cluster %s gives no access to etcd", cluster.Name())
	}
	return access
}

func (l fixture) newEtcdClient(cluster federation.Cluster) *clientv3.Client {
	l.Helper()
	etcd, err := l.etcdAccess(cluster).DialEtcd()
	l.Must(err)
	l.Cleanup(func() { _ = etcd.Close() })
	return etcd
}

// deleteFromEtcd deletes objects from a cluster's etcd in one transaction, without its API server. It deletes the given keys and all keys
// below them, and fails the test unless the number of deleted objects is want.
func (l fixture) deleteFromEtcd(cluster federation.Cluster, want int64, keys ...string) {
	l.Helper()
	var all []clientv3.Op
	for _, key := range keys {
		all = append(all, clientv3.OpDelete("/registry/"+key), clientv3.OpDelete("/registry/"+key+"/", clientv3.WithPrefix()))
	}
	response, err := l.newEtcdClient(cluster).Txn(l.Context()).Then(all...).Commit()
	l.Must(err)
	var got int64
	for _, one := range response.Responses {
		got += one.GetResponseDeleteRange().Deleted
	}
	if got != want {
		l.Fatalf("%d objects were deleted from etcd at %s of cluster %s, want %d", got, keys, cluster.Name(), want)
	}
}

// backUpEtcd saves a snapshot of a cluster's etcd to a file.
func (l fixture) backUpEtcd(cluster federation.Cluster) (file string) {
	l.Helper()
	saved, err := l.newEtcdClient(cluster).Snapshot(l.Context())
	l.Must(err)
	defer saved.Close()
	out, err := os.Create(filepath.Join(l.TempDir(), "backup.db"))
	l.Must(err)
	_, err = io.Copy(out, saved)
	l.Must(errors.Join(err, out.Close()))
	return out.Name()
}

// restoreEtcd stops all components of a cluster except etcd and restores etcd from a backup. start starts the other components again.
func (l fixture) restoreEtcd(cluster federation.Cluster, backup string) (start func()) {
	l.Helper()
	faults := l.faults(cluster)
	l.killComponents(cluster, federation.Etcd)
	l.Must(l.etcdAccess(cluster).RestoreEtcd(l.Context(), backup, revisionBump))
	return func() {
		l.Helper()
		for _, component := range faults.Components()[1:] {
			l.Must(faults.Restart(l.Context(), component))
		}
	}
}

// killComponents stops all components of a cluster except the given one.
func (l fixture) killComponents(cluster federation.Cluster, except ...federation.Component) {
	l.Helper()
	faults := l.faults(cluster)
	for _, component := range faults.Components() {
		if len(except) == 0 || component != except[0] {
			l.Must(faults.Kill(component))
		}
	}
}

// restartComponents restarts all components of a cluster when the test has failed, because the next test needs them.
func (l fixture) restartComponents(cluster federation.Cluster) {
	l.Helper()
	faults := l.faults(cluster)
	l.Cleanup(func() {
		if !l.Failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), e2e.DefaultTimeout)
		defer cancel()
		for _, component := range faults.Components() {
			if err := faults.Restart(ctx, component); err != nil {
				l.Log(err)
			}
		}
	})
}

package disasters_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/breakwater-k8s/breakwater/internal/federation"
)

// bump is by how much revisions go on after a restore, as etcd advises.
const bump = 1_000_000_000

// etcdAccess is a cluster whose etcd can be reached below its apiserver.
type etcdAccess interface {
	EtcdAccess() (endpoint string, config *tls.Config, err error)
	RestoreEtcd(ctx context.Context, backup string, bump uint64) error
}

func (l lab) access(cluster federation.Cluster) etcdAccess {
	l.Helper()
	access, ok := cluster.(etcdAccess)
	if !ok {
		l.Skipf("the etcd of cluster %s cannot be reached", cluster.Name())
	}
	return access
}

func (l lab) dial(cluster federation.Cluster) *clientv3.Client {
	l.Helper()
	endpoint, config, err := l.access(cluster).EtcdAccess()
	l.Must(err)
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, TLS: config, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
	})
	l.Must(err)
	l.Cleanup(func() { _ = etcd.Close() })
	return etcd
}

// erase takes objects out of a cluster's etcd, below its apiserver, as damage does: those whose keys begin with these parts. The
// last part is whole, so that nobody else's go along.
func (l lab) erase(cluster federation.Cluster, want int, parts ...string) {
	l.Helper()
	key := strings.Join(append([]string{"/registry"}, parts...), "/")
	etcd := l.dial(cluster)
	one, err := etcd.Delete(l.Context(), key)
	l.Must(err)
	below, err := etcd.Delete(l.Context(), key+"/", clientv3.WithPrefix())
	l.Must(err)
	if got := int(one.Deleted + below.Deleted); got != want {
		l.Fatalf("%d objects were erased at %s of cluster %s, want %d", got, key, cluster.Name(), want)
	}
}

// backUp saves a cluster's etcd.
func (l lab) backUp(cluster federation.Cluster) (file string) {
	l.Helper()
	saved, err := l.dial(cluster).Snapshot(l.Context())
	l.Must(err)
	defer saved.Close()
	out, err := os.Create(filepath.Join(l.TempDir(), "backup.db"))
	l.Must(err)
	_, err = io.Copy(out, saved)
	l.Must(errors.Join(err, out.Close()))
	return out.Name()
}

// restore ends all of a cluster but its etcd and takes that back to a backup; start starts the others again.
func (l lab) restore(cluster federation.Cluster, backup string) (start func()) {
	l.Helper()
	faults := l.faults(cluster)
	l.kill(cluster, federation.Etcd)
	l.Must(l.access(cluster).RestoreEtcd(l.Context(), backup, bump))
	return func() {
		l.Helper()
		for _, component := range faults.Components()[1:] {
			l.Must(faults.Restart(l.Context(), component))
		}
	}
}

// kill ends all of a cluster but what is to be kept.
func (l lab) kill(cluster federation.Cluster, kept ...federation.Component) {
	l.Helper()
	faults := l.faults(cluster)
	for _, component := range faults.Components() {
		if len(kept) == 0 || component != kept[0] {
			l.Must(faults.Kill(component))
		}
	}
}

package testplane

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Erase deletes an object from the etcd of the shared control plane, without its API server, to simulate damage. The object is
// given by resource and group (podprotectors of breakwater.dev), namespace and name.
func Erase(t testing.TB, group, resource, namespace, name string) {
	t.Helper()
	etcd := etcdOf(t)
	key := strings.Join([]string{"/registry", group, resource, namespace, name}, "/")
	response, err := etcd.Delete(t.Context(), key)
	if err != nil {
		t.Fatalf("erase %s: %v", key, err)
	}
	if response.Deleted != 1 {
		t.Fatalf("etcd has %d keys %s, want 1", response.Deleted, key)
	}
}

// Compact compacts the etcd of the shared control plane: it removes all old versions of objects. The API server may keep old
// versions for a while.
func Compact(t testing.TB) {
	t.Helper()
	etcd := etcdOf(t)
	now, err := etcd.Get(t.Context(), "/", clientv3.WithCountOnly())
	if err == nil {
		_, err = etcd.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err != nil {
		t.Fatalf("compact: %v", err)
	}
}

func etcdOf(t testing.TB) *clientv3.Client {
	t.Helper()
	access, ok := first.cluster(t).(interface {
		EtcdAccess() (endpoint string, config *tls.Config, err error)
	})
	if !ok {
		t.Fatal("this backend gives no access to its etcd")
	}
	endpoint, config, err := access.EtcdAccess()
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, TLS: config, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	return etcd
}

package testplane

import (
	"bytes"
	"iter"
	"path"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// Erase deletes an object from the etcd of the shared control plane, without its API server, to simulate damage. The object is
// given by resource and group (podprotectors of breakwater.dev; pods of the empty group), namespace and name.
func Erase(t testing.TB, group, resource, namespace, name string) {
	t.Helper()
	etcd := etcdOf(t)
	key := path.Join("/registry", group, resource, namespace, name)
	response, err := etcd.Delete(t.Context(), key)
	if err != nil {
		t.Fatalf("erase %s: %v", key, err)
	}
	if response.Deleted != 1 {
		t.Fatalf("etcd has %d keys %s, want 1", response.Deleted, key)
	}
}

// maxStored is the maximum number of objects in one transaction of etcd.
const maxStored = 100

// StorePods stores pods in the etcd of the shared control plane, without its API server, which takes a fifth of the time. Each pod must be
// complete.
func StorePods(t testing.TB, pods iter.Seq[*corev1.Pod]) {
	t.Helper()
	etcd, encoder := etcdOf(t), protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	var writes []clientv3.Op
	store := func() {
		if _, err := etcd.Txn(t.Context()).Then(writes...).Commit(); err != nil {
			t.Fatalf("store pods: %v", err)
		}
		writes = nil
	}
	for pod := range pods {
		var raw bytes.Buffer
		pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		pod.ResourceVersion = "" // etcd's revision
		if err := encoder.Encode(pod, &raw); err != nil {
			t.Fatalf("encode pod %s: %v", pod.Name, err)
		}
		if writes = append(writes, clientv3.OpPut("/registry/pods/"+pod.Namespace+"/"+pod.Name, raw.String())); len(writes) == maxStored {
			store()
		}
	}
	store()
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
	etcd, err := first.cluster(t).DialEtcd()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	return etcd
}

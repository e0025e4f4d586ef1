package nodeguard_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// BenchmarkRequest compares requests through the guard with the same requests to the API server: a read, and a write of a pod's status, as the
// kubelet sends them all the time. Where a pod was registered again, the guard translates UIDs in each of them.
func BenchmarkRequest(b *testing.B) {
	for _, registered := range []bool{false, true} {
		f := newFixture(b, "application/vnd.kubernetes.protobuf")
		pod := f.run("web-0", "web")
		name := "pods=own"
		if registered {
			f.sees(f.watch(true), []types.UID{pod.UID})
			testplane.Erase(b, "", "pods", f.namespace, pod.Name)
			f.registered(pod.Name, pod.UID)
			name = "pods=registered"
		}
		for way, c := range map[string]*kubernetes.Clientset{"direct": f.admin, "guard": f.kubelet} {
			b.Run(name+"/"+way, func(b *testing.B) {
				for b.Loop() {
					if _, err := c.CoreV1().Nodes().Get(b.Context(), f.node, metav1.GetOptions{}); err != nil {
						b.Fatal(err)
					}
					if _, err := c.CoreV1().Pods(f.namespace).Patch(b.Context(), "web-0", types.StrategicMergePatchType,
						[]byte(`{"status":{"message":"running"}}`), metav1.PatchOptions{}, "status"); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

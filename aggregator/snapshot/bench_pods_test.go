package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/largecluster"
)

const benchReplicaSets = largecluster.ReplicaSets

func benchPod(i int) *corev1.Pod { return largecluster.Pod(i) }

func benchStatus(p *corev1.Pod, at metav1.Time) corev1.PodStatus { return largecluster.Status(p, at) }

// benchProtector is the protector of an application. Applications from benchReplicaSets on have no pods here.
func benchProtector(app int) *v1alpha1.PodProtector { return largecluster.Protector(app) }

// receivedPod returns the i-th pod of the crowd as a watch delivers it: complete, and decoded separately, so that it
// shares no memory with other pods.
func receivedPod(tb testing.TB, i int) *corev1.Pod {
	tb.Helper()
	raw, err := largecluster.Received(benchPod(i), i).Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	received := &corev1.Pod{}
	if err := received.Unmarshal(raw); err != nil {
		tb.Fatal(err)
	}
	return received
}

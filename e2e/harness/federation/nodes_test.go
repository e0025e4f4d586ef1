package federation_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

func TestNodesAcceptPods(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus, taints ...string) *corev1.Node {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		}
		for _, key := range taints {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
		return n
	}
	for claim, test := range map[string]struct {
		second *corev1.Node
		want   string
	}{
		"a ready node":                     {node("b", corev1.ConditionTrue), ""},
		"a node that runs a control plane": {node("b", corev1.ConditionTrue, "node-role.kubernetes.io/control-plane"), ""},
		"a node that is new":               {node("b", corev1.ConditionTrue, "node.kubernetes.io/not-ready"), "node b is tainted node.kubernetes.io/not-ready"},
		"a node that is not ready":         {node("b", corev1.ConditionFalse), "node b is not ready"},
		"no second node":                   {nil, "1 of 2 nodes exist"},
	} {
		t.Run(claim, func(t *testing.T) {
			client := fake.NewClientset(node("a", corev1.ConditionTrue))
			if test.second != nil {
				if err := client.Tracker().Add(test.second); err != nil {
					t.Fatal(err)
				}
			}
			got := ""
			if err := federation.CheckNodes(t.Context(), client, 2); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("CheckNodes() error %q, want %q", got, test.want)
			}
		})
	}
}

package living_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// testNodeKey is the label and the taint of nodes that belong to one test. Only its pods run there.
	testNodeKey = "e2e.breakwater.dev/room"
	// seatResource is an extended resource of which a test node has a small amount.
	seatResource corev1.ResourceName = "e2e.breakwater.dev/seat"
)

// addNode adds a node for the test with the given number of seats, and returns its name when it is ready.
func addNode(l *fixture, name string, seats int64) string {
	l.Helper()
	name = l.Namespace + "-" + name
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100"), corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods: resource.MustParse("100"), seatResource: *resource.NewQuantity(seats, resource.DecimalSI),
	}
	_, err := here(l).Client.CoreV1().Nodes().Create(l.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, testNodeKey: l.Namespace}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: testNodeKey, Value: l.Namespace, Effect: corev1.TaintEffectNoSchedule}}},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
	}, metav1.CreateOptions{})
	l.Must(err)
	l.Eventually(func() string { // until the scheduler can use it
		node, err := here(l).Client.CoreV1().Nodes().Get(l.Context(), name, metav1.GetOptions{})
		l.Must(err)
		if len(node.Spec.Taints) != 1 {
			return fmt.Sprintf("node %s is not ready: %+v", name, node.Spec.Taints)
		}
		return ""
	})
	return name
}

// onTestNodes makes pods run on the nodes of the test.
func onTestNodes(l *fixture) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.NodeSelector = map[string]string{testNodeKey: l.Namespace}
		t.Spec.Tolerations = append(t.Spec.Tolerations, corev1.Toleration{Key: testNodeKey, Operator: corev1.TolerationOpExists})
	}
}

// withSeats makes each pod request the given number of seats.
func withSeats(seats int64) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		taken := corev1.ResourceList{seatResource: *resource.NewQuantity(seats, resource.DecimalSI)}
		t.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: taken, Limits: taken}
	}
}

// taintNoExecute adds a NoExecute taint to a node that none of its pods tolerates.
func taintNoExecute(l *fixture, node string) {
	l.Helper()
	patch := fmt.Sprintf(`{"spec":{"taints":[{"key":"e2e.breakwater.dev/down","effect":%q}]}}`, corev1.TaintEffectNoExecute)
	_, err := here(l).Client.CoreV1().Nodes().Patch(l.Context(), node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	l.Must(err)
}

// countPodsOnNode counts the protected pods of the test on a node of the cell here.
func countPodsOnNode(l *fixture, node string) int {
	l.Helper()
	n := 0
	for _, pod := range l.ExistingPods(here(l)) {
		if pod.Spec.NodeName == node {
			n++
		}
	}
	return n
}

func waitForPodsOnNode(l *fixture, node string, want int) {
	l.Helper()
	l.Eventually(func() string {
		if n := countPodsOnNode(l, node); n != want {
			return fmt.Sprintf("%d pods are on node %s, want %d", n, node, want)
		}
		return ""
	})
}

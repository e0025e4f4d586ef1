package living_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e"
)

// Karpenter terminates a node with a terminationGracePeriod. When the grace period of a pod would end after the deadline of the node, each pass
// of the drain deletes that pod without an eviction. A pass ends at the first error, and Karpenter retries it with a backoff.
func TestKarpenterDeletesAtDeadline(t *testing.T) {
	claim(t, "deletions at a node's deadline are denied at the floor, and admitted one by one when budget exists", func(l *fixture) {
		node := createPodsOnNode(l, 3, 3)
		_, err := here(l).Client.CoreV1().Nodes().Patch(l.Context(), node, types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}, {"key": %q, "value": %q, "effect": "NoSchedule"}]}}`,
				testNodeKey, l.Namespace), metav1.PatchOptions{})
		l.Must(err)
		k := startFloorWatch(l, 6, 6)
		for range 3 {
			l.ExpectDenial(deleteUntilFailure(l, node), "floor 6, available 6")
		}
		k.expectNoRemoval()

		scaleDeployment(l, elsewhere(l), "elsewhere", 4)
		backoff := 10 * time.Millisecond
		l.Eventually(func() string {
			err := deleteUntilFailure(l, node)
			if err == nil && countPodsOnNode(l, node) == 0 {
				return ""
			}
			<-time.After(backoff) // the backoff of its work queue
			backoff = min(2*backoff, time.Second)
			return fmt.Sprintf("%d pods are on the node: %v", countPodsOnNode(l, node), err)
		})
		l.WaitForSummary(e2e.AllAvailable(7))
	})
}

// deleteUntilFailure is one pass of the drain: it deletes the pods of the node until one deletion fails.
func deleteUntilFailure(l *fixture, node string) error {
	l.Helper()
	for _, pod := range l.ExistingPods(here(l)) {
		grace := int64(1)
		if pod.Spec.NodeName != node {
			continue
		}
		if err := here(l).Client.CoreV1().Pods(pod.Namespace).Delete(l.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
			return err
		}
	}
	return nil
}
